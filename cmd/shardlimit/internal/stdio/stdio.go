// Package stdio makes standard input and output interruptible, so that a
// program that is told to stop knows exactly which bytes it took and which it
// gave.
//
// A read that is abandoned in a goroutine may still take bytes from a pipe
// after the program has settled its accounts, and they are lost. Here a read
// is only begun when it will not block, so after its context is done nothing
// more is taken. The same goes for writes.
package stdio

import (
	"bytes"
	"context"
	"io"
	"os"
)

type stream struct {
	ctx  context.Context
	file *os.File
}

// Input returns a reader of f whose Read returns the error of ctx, and takes
// nothing from f, once ctx is done. f must be in blocking mode, as standard
// input is, and should have no other reader while it is a pipe: one that takes
// the bytes first leaves Read blocked until more come. One goroutine may read.
func Input(ctx context.Context, f *os.File) io.Reader { return stream{ctx, f} }

// Read implements io.Reader.
func (s stream) Read(p []byte) (int, error) {
	if err := await(s.ctx, s.file, readable); err != nil {
		return 0, err
	}
	return s.file.Read(p)
}

// Output returns a writer to f whose Write gives up when ctx is done. f must be in blocking
// mode, as standard output is. As many lines as fit into pipeBuffer bytes are
// one system call, which the system keeps in one piece: lines that several
// processes write to the same pipe do not mix unless they are longer than
// that. One goroutine may use it.
func Output(ctx context.Context, f *os.File) io.Writer { return stream{ctx, f} }

// Write writes p. It returns how much of p was written, which is all of it if
// the error is nil.
func (s stream) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		if err := await(s.ctx, s.file, writable); err != nil {
			return written, err
		}
		n, err := s.file.Write(piece(p[written:]))
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// pipeBuffer is how much POSIX systems write to a pipe in one piece: at least
// 512 bytes everywhere, 4096 on Linux.
const pipeBuffer = 4096

// piece returns the largest beginning of p of at most pipeBuffer bytes that
// consists of whole lines; if there is none, that much of the first line.
func piece(p []byte) []byte {
	if len(p) <= pipeBuffer {
		return p
	}
	if i := bytes.LastIndexByte(p[:pipeBuffer], '\n'); i >= 0 {
		return p[:i+1]
	}
	return p[:pipeBuffer]
}
