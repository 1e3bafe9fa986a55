// Package load drives a decision function from many goroutines at once and
// accounts for what came back and what it cost this process.
package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Call asks for one decision.
type Call = func(ctx context.Context) (bool, error)

// Sample is what happened while it was measured; the warm-up does not count.
type Sample struct {
	Elapsed time.Duration
	CPU     time.Duration // of this whole process, user and system
	Allowed int64
	Denied  int64
	Failed  int64      // calls that returned an error
	Err     error      // one of those errors
	All     int64      // decisions at any time, also before and after what was measured
	Times   *Latencies // of the calls that were timed
}

// Decisions are the calls that were answered.
func (s Sample) Decisions() int64 { return s.Allowed + s.Denied }

// Plan says how to load.
type Plan struct {
	Goroutines int
	Warm       time.Duration // runs first, not counted
	For        time.Duration // counted
	Timed      bool          // each call; else none
	// Patience, if above For, is how long it is counted at most until there is a decision: for
	// trials that are so short that a busy machine may answer nothing in them.
	Patience time.Duration
}

const (
	groupCalls = 64                    // in a group, at most
	groupSpan  = 20 * time.Microsecond // of a group, about
)

// tally is one goroutine's counts, alone on its cache line.
type tally struct {
	allowed, denied, failed atomic.Int64
	_                       [40]byte
}

// Run has each goroutine call its function as fast as it is answered. It returns when all of them
// have ended; their last call gets ctx, which is not cancelled at the end of the plan.
//
// Decisions may cost nanoseconds: the loop counts in registers and allocates nothing, so that it is
// not what is measured. Calls are counted in groups, which are of one call if calls are slow or
// timed.
func Run(ctx context.Context, plan Plan, each func(goroutine int) Call) (Sample, error) {
	var (
		stop, counts atomic.Bool
		wg           sync.WaitGroup
		tallies      = make([]tally, plan.Goroutines)
		lastErr      atomic.Pointer[error]
		times        = NewLatencies()
	)
	for i := range tallies {
		allow := each(i)
		wg.Go(func() {
			for n := 1; !stop.Load() && ctx.Err() == nil; {
				began := time.Now()
				err := group(ctx, n, allow, &tallies[i])
				took := time.Since(began)
				switch {
				case err != nil:
					keep := err // on the heap only if there is one
					lastErr.Store(&keep)
				case plan.Timed && counts.Load():
					times.Add(i, took)
				}
				if !plan.Timed {
					n = groupAfter(n, took)
				}
			}
		})
	}
	sample, err := observe(ctx, plan, tallies, &counts)
	stop.Store(true)
	wg.Wait()
	if e := lastErr.Load(); e != nil {
		sample.Err = *e
	}
	sample.Times, sample.All = times, sum(tallies).Decisions()
	return sample, err
}

// groupAfter is how many calls the next group has, after one of n took so long.
func groupAfter(n int, took time.Duration) int {
	if took < groupSpan {
		return min(2*n, groupCalls)
	}
	return max(n/2, 1)
}

// group makes n calls and returns the last of their errors.
func group(ctx context.Context, n int, allow Call, t *tally) error {
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

// observe reads everything at the two ends of the counted time.
func observe(ctx context.Context, plan Plan, tallies []tally, counts *atomic.Bool) (Sample, error) {
	if plan.Warm > 0 { // else it counts from the first call on
		if err := Sleep(ctx, plan.Warm); err != nil {
			return Sample{}, err
		}
	}
	counts.Store(true)
	first, began := sum(tallies), time.Now()
	if err := Sleep(ctx, plan.For); err != nil {
		return Sample{}, err
	}
	last := sum(tallies)
	for last.Decisions() == first.Decisions() && time.Since(began) < plan.Patience {
		if err := Sleep(ctx, min(plan.For, plan.Patience-time.Since(began))); err != nil {
			return Sample{}, err
		}
		last = sum(tallies)
	}
	last.Elapsed = time.Since(began)
	counts.Store(false)
	last.CPU -= first.CPU
	last.Allowed -= first.Allowed
	last.Denied -= first.Denied
	last.Failed -= first.Failed
	return last, nil
}

func sum(tallies []tally) Sample {
	s := Sample{CPU: CPU()}
	for i := range tallies {
		s.Allowed += tallies[i].allowed.Load()
		s.Denied += tallies[i].denied.Load()
		s.Failed += tallies[i].failed.Load()
	}
	return s
}

// Sleep waits for d, or until ctx ends, whose error it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
