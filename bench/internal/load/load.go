// Package load drives a decision function from many goroutines at once and
// accounts for what came back and what it cost this process.
package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Sample is what happened while it was measured; the warm-up does not count.
type Sample struct {
	Elapsed time.Duration
	CPU     time.Duration // of this whole process, user and system
	Allowed int64
	Denied  int64
	Failed  int64 // calls that returned an error
	Err     error // one of those errors
}

// Decisions are the calls that were answered.
func (s Sample) Decisions() int64 { return s.Allowed + s.Denied }

// PerSecond is the rate of answered calls.
func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Decisions()) / s.Elapsed.Seconds()
}

// CPUMicros is the CPU time of this process per answered call, in microseconds.
func (s Sample) CPUMicros() float64 {
	if s.Decisions() == 0 {
		return 0
	}
	return float64(s.CPU.Nanoseconds()) / 1e3 / float64(s.Decisions())
}

// tally is one goroutine's counts, alone on its cache line.
type tally struct {
	allowed, denied, failed atomic.Int64
	_                       [40]byte
}

// Plan says how to load.
type Plan struct {
	Goroutines int
	Warm       time.Duration // runs first, not counted
	For        time.Duration // counted
	// Before and After are called at the two ends of the counted time, to read
	// other counters there. They may be nil.
	Before, After func() error
}

// Run calls allow from plan.Goroutines goroutines, each as fast as it is
// answered. It returns when all of them have ended; their last call gets ctx,
// which is not cancelled at the end of the plan.
func Run(ctx context.Context, plan Plan, allow func(context.Context) (bool, error)) (Sample, error) {
	return RunEach(ctx, plan, func(int) func(context.Context) (bool, error) { return allow })
}

// RunEach is Run with a function of its own for each goroutine, by its number.
func RunEach(ctx context.Context, plan Plan, each func(goroutine int) func(context.Context) (bool, error)) (Sample,
	error) {
	var (
		stop    atomic.Bool
		wg      sync.WaitGroup
		tallies = make([]tally, plan.Goroutines)
		lastErr atomic.Pointer[error]
	)
	for i := range tallies {
		allow := each(i)
		wg.Go(func() {
			for !stop.Load() && ctx.Err() == nil {
				step(ctx, allow, &tallies[i], &lastErr)
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

func step(ctx context.Context, allow func(context.Context) (bool, error), t *tally, lastErr *atomic.Pointer[error]) {
	ok, err := allow(ctx)
	switch {
	case err != nil:
		t.failed.Add(1)
		keep := err // on the heap only if there is one
		lastErr.Store(&keep)
	case ok:
		t.allowed.Add(1)
	default:
		t.denied.Add(1)
	}
}

// observe reads everything at the two ends of the counted time.
func observe(ctx context.Context, plan Plan, tallies []tally) (Sample, error) {
	if err := Sleep(ctx, plan.Warm); err != nil {
		return Sample{}, err
	}
	if err := call(plan.Before); err != nil {
		return Sample{}, err
	}
	first, began := sum(tallies), time.Now()
	first.CPU = cpu()
	if err := Sleep(ctx, plan.For); err != nil {
		return Sample{}, err
	}
	last := sum(tallies)
	last.CPU = cpu()
	last.Elapsed = time.Since(began)
	last.CPU -= first.CPU
	last.Allowed -= first.Allowed
	last.Denied -= first.Denied
	last.Failed -= first.Failed
	return last, call(plan.After)
}

func sum(tallies []tally) Sample {
	var s Sample
	for i := range tallies {
		s.Allowed += tallies[i].allowed.Load()
		s.Denied += tallies[i].denied.Load()
		s.Failed += tallies[i].failed.Load()
	}
	return s
}

func call(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}
