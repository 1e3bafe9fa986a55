//go:build !unix

package stdio

import (
	"context"
	"io"
	"os"
)

type result struct {
	n   int
	err error
}

type input struct {
	ctx     context.Context
	file    *os.File
	buffer  []byte
	pending chan result // capacity 1; a read is under way if busy
	busy    bool
}

// Input returns a reader of f whose Read returns the error of ctx once ctx is
// done. This system offers no way to wait for input without taking it: what a
// pipe or a terminal delivers between that moment and the end of the program
// is lost.
func Input(ctx context.Context, f *os.File) (io.Reader, error) {
	return &input{ctx: ctx, file: f, pending: make(chan result, 1)}, nil
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	if !in.busy {
		in.busy = true
		in.buffer = make([]byte, len(p))
		go func() {
			n, err := in.file.Read(in.buffer)
			in.pending <- result{n, err}
		}()
	}
	select {
	case r := <-in.pending:
		in.busy = false
		return copy(p, in.buffer[:r.n]), r.err
	case <-in.ctx.Done():
		return 0, in.ctx.Err()
	}
}

// Output writes lines to a file. See NewOutput.
type Output struct {
	ctx  context.Context
	file *os.File
}

// NewOutput returns an output to f whose Write does not begin once ctx is
// done. A write that blocks cannot be given up on this system.
func NewOutput(ctx, _ context.Context, f *os.File) (*Output, error) {
	return &Output{ctx: ctx, file: f}, nil
}

// Ready returns the error of ctx; this system cannot tell whether a write would block.
func (o *Output) Ready(ctx context.Context) error { return ctx.Err() }

// Write writes p in pieces of whole lines.
func (o *Output) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		if err := o.ctx.Err(); err != nil {
			return written, err
		}
		n, err := o.file.Write(piece(p[written:]))
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
