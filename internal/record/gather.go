package record

import (
	"context"
	"time"
)

// step is what becomes of the rest when one of several tasks is done.
type step uint8

const (
	wait   step = iota
	linger      // enough are done: the others have as long again as one place may take
	hurry       // enough are done: who takes much longer is not waited for
	stop
)

// gather has tasks done at once, and hear take in what comes of them. It reports whether ctx ended
// before. The tasks go on all the same.
func gather[T any](ctx context.Context, n int, do func(i int) T, hear func(i int, got T) step) (ended bool) {
	type result struct {
		i   int
		got T
	}
	results := make(chan result, n)
	for i := range n {
		go func() { results <- result{i, do(i)} }()
	}
	began := time.Now()
	var late <-chan time.Time
	for range n {
		select {
		case r := <-results:
			least := leastGrace
			switch hear(r.i, r.got) {
			case stop:
				return false
			case wait:
				continue
			case linger:
				least = patience
			}
			if late == nil {
				late = time.After(max(4*time.Since(began), least))
			}
		case <-late:
			return false
		case <-ctx.Done():
			return true
		}
	}
	return false
}

// leastGrace is how long who is farther away has at least: a place that a round leaves behind is
// missed if another one stalls before that is mended.
const leastGrace = 25 * time.Millisecond
