package stdio

import (
	"context"
	"io"
	"time"
)

const (
	// grace is what a read has to end after its context is done, as one of a file does.
	grace = 100 * time.Millisecond

	// most is how many bytes one read takes: each read has a buffer of its own.
	most = 64 << 10
)

// abandonable reads from r, where a system cannot tell whether that would block. It abandons a read
// that is idle when ctx is done: what a pipe or a terminal delivers between that moment and the end
// of the program is lost.
func abandonable(ctx context.Context, r io.Reader, p []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	buffer, done := make([]byte, min(len(p), most)), make(chan result, 1) // an abandoned read must not touch p
	go func() {
		n, err := r.Read(buffer)
		done <- result{n, err}
	}()
	var late <-chan time.Time
	over := ctx.Done()
	for {
		select {
		case r := <-done:
			return copy(p, buffer[:r.n]), r.err
		case <-over:
			over, late = nil, time.After(grace)
		case <-late:
			return 0, ctx.Err()
		}
	}
}
