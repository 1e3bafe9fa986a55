package lane

import (
	"context"
	"sync/atomic"
	"time"
)

// expiry is a context that ends when it is told to. A flight keeps one for all
// its calls: context.WithTimeout would allocate for each of them.
type expiry struct {
	at   time.Time // of the call under way
	done chan struct{}
	over atomic.Bool
}

// expire ends the context and reports whether it had not ended before.
func (e *expiry) expire() bool {
	if e.over.Swap(true) {
		return false
	}
	close(e.done)
	return true
}

func (e *expiry) Deadline() (time.Time, bool) { return e.at, true }
func (e *expiry) Done() <-chan struct{}       { return e.done }
func (e *expiry) Value(any) any               { return nil }

func (e *expiry) Err() error {
	if e.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}
