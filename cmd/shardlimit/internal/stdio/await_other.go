//go:build !unix

package stdio

import (
	"context"
	"io"
	"os"
	"time"
)

const (
	writable = iota

	// grace is what a read has to end after its context is done, as one of a file does.
	grace = 100 * time.Millisecond

	// most is how many bytes one read takes: each read has a buffer of its own.
	most = 64 << 10
)

var errNoReader = io.ErrClosedPipe

// await does not wait: this system cannot tell whether a call would block, so a write hears an
// interrupt once the call under way has ended.
func await(ctx context.Context, _ *os.File, _ int16) (failed bool, err error) {
	return false, ctx.Err()
}

// Read implements io.Reader. It abandons a read that is idle when the context is done: what a pipe
// or a terminal delivers between that moment and the end of the program is lost.
func (in *input) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	buffer, done := make([]byte, min(len(p), most)), make(chan result, 1) // an abandoned read must not touch p
	go func() {
		n, err := in.file.Read(buffer)
		done <- result{n, err}
	}()
	var late <-chan time.Time
	over := in.ctx.Done()
	for {
		select {
		case r := <-done:
			return copy(p, buffer[:r.n]), r.err
		case <-over:
			over, late = nil, time.After(grace)
		case <-late:
			return 0, in.ctx.Err()
		}
	}
}
