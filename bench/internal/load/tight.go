package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tightCalls = 64                    // in a group, at most
	tightSpan  = 20 * time.Microsecond // of a group, about
)

// RunTight is Run for decisions that may cost nanoseconds: its loop counts in
// registers and allocates nothing, so that the loop is not what is measured. A
// goroutine's calls are counted in groups, which are of one call if calls are slow.
func RunTight(ctx context.Context, plan Plan, allow func(context.Context) (bool, error)) (Sample, error) {
	var (
		stop    atomic.Bool
		wg      sync.WaitGroup
		tallies = make([]tally, plan.Goroutines)
		lastErr atomic.Pointer[error]
	)
	for i := range tallies {
		wg.Go(func() {
			for n := 1; !stop.Load() && ctx.Err() == nil; {
				began := time.Now()
				if err := group(ctx, n, allow, &tallies[i]); err != nil {
					keep := err // on the heap only if there is one
					lastErr.Store(&keep)
				}
				n = groupAfter(n, time.Since(began))
			}
		})
	}
	sample, err := observe(ctx, plan, tallies)
	stop.Store(true)
	wg.Wait()
	if e := lastErr.Load(); e != nil {
		sample.Err = *e
	}
	return sample, err
}

// groupAfter is how many calls the next group has, after one of n took so long.
func groupAfter(n int, took time.Duration) int {
	if took < tightSpan {
		return min(2*n, tightCalls)
	}
	return max(n/2, 1)
}

// group makes n calls and returns the last of their errors.
func group(ctx context.Context, n int, allow func(context.Context) (bool, error), t *tally) error {
	var allowed, failed int64
	var last error
	for range n {
		ok, err := allow(ctx)
		switch {
		case err != nil:
			failed, last = failed+1, err
		case ok:
			allowed++
		}
	}
	if failed > 0 {
		t.failed.Add(failed)
	}
	if allowed > 0 {
		t.allowed.Add(allowed)
	}
	if denied := int64(n) - allowed - failed; denied > 0 {
		t.denied.Add(denied)
	}
	return last
}
