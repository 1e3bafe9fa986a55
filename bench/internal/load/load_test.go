package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestStep(t *testing.T) {
	boom := errors.New("boom")
	var (
		tallies = make([]tally, 2)
		lastErr atomic.Pointer[error]
		answers = []struct {
			ok  bool
			err error
		}{{true, nil}, {false, nil}, {true, nil}, {false, boom}, {true, nil}}
	)
	for i, a := range answers {
		step(t.Context(), func(context.Context) (bool, error) { return a.ok, a.err }, &tallies[i%2], &lastErr)
	}
	if s := sum(tallies); s.Allowed != 3 || s.Denied != 1 || s.Failed != 1 {
		t.Errorf("sum %+v, want 3 allowed, 1 denied, 1 failed", s)
	}
	if e := lastErr.Load(); e == nil || !errors.Is(*e, boom) {
		t.Errorf("last error %v, want boom", e)
	}
}

func TestRunIsConcurrent(t *testing.T) {
	const goroutines = 4
	var calls atomic.Int64
	all := make(chan struct{}) // closed when all goroutines are inside at once
	allow := func(context.Context) (bool, error) {
		if calls.Add(1) == goroutines {
			close(all)
		}
		<-all
		return true, nil
	}
	plan := Plan{
		Goroutines: goroutines,
		For:        time.Millisecond,
		Before:     func() error { <-all; return nil }, // hangs if they are fewer
	}
	s, err := Run(t.Context(), plan, allow)
	if err != nil {
		t.Fatal(err)
	}
	if s.Elapsed < plan.For || s.Decisions() > calls.Load() {
		t.Errorf("%d decisions of %d calls in %s", s.Decisions(), calls.Load(), s.Elapsed)
	}
}

// TestRunEach: every goroutine calls its own function, and no other.
func TestRunEach(t *testing.T) {
	const goroutines = 4
	var calls [goroutines]atomic.Int64
	all := make(chan struct{}) // closed when every function was called
	var first atomic.Int64
	plan := Plan{Goroutines: goroutines, Before: func() error { <-all; return nil }}
	_, err := RunEach(t.Context(), plan, func(i int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			if calls[i].Add(1) == 1 && first.Add(1) == goroutines {
				close(all)
			}
			return true, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if calls[i].Load() == 0 {
			t.Errorf("function %d was never called", i)
		}
	}
}

func TestRunReportsHooks(t *testing.T) {
	boom := errors.New("boom")
	allow := func(context.Context) (bool, error) { return true, nil }
	for _, plan := range []Plan{
		{Goroutines: 1, Before: func() error { return boom }},
		{Goroutines: 1, After: func() error { return boom }},
	} {
		if _, err := Run(t.Context(), plan, allow); !errors.Is(err, boom) {
			t.Errorf("err = %v, want boom", err)
		}
	}
}

func TestSampleRates(t *testing.T) {
	s := Sample{Elapsed: 2 * time.Second, CPU: 30 * time.Millisecond, Allowed: 20_000, Denied: 10_000, Failed: 7}
	if s.PerSecond() != 15_000 || s.CPUMicros() != 1 {
		t.Errorf("%v per second, %v us each; want 15000 and 1", s.PerSecond(), s.CPUMicros())
	}
}

func TestRunLeavesTheWarmUpOut(t *testing.T) {
	var calls atomic.Int64
	var atStart, atEnd int64
	started := make(chan struct{})
	s, err := Run(t.Context(), Plan{
		Goroutines: 1,
		For:        time.Millisecond,
		Before:     func() error { <-started; atStart = calls.Load(); return nil },
		After:      func() error { atEnd = calls.Load(); return nil },
	}, func(context.Context) (bool, error) {
		if calls.Add(1) == 1000 {
			close(started)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Allowed > atEnd-atStart+1 {
		t.Errorf("%d counted, %d calls before and %d at the end", s.Allowed, atStart, atEnd)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Plan{Goroutines: 2, For: time.Hour}, func(context.Context) (bool, error) {
		cancel()
		return true, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want canceled", err)
	}
}

func TestSampleOfNothing(t *testing.T) {
	var s Sample
	if s.PerSecond() != 0 || s.CPUMicros() != 0 {
		t.Error("an empty sample has a rate")
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	var counts tally
	var lastErr atomic.Pointer[error]
	allow := func(context.Context) (bool, error) { return true, nil }
	if n := testing.AllocsPerRun(1000, func() { step(t.Context(), allow, &counts, &lastErr) }); n != 0 {
		t.Errorf("%v allocations a call; what is measured should not be those of the loop", n)
	}
}
