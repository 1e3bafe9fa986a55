package load

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// everywhere has all goroutines call the same.
func everywhere(call Call) func(int) Call { return func(int) Call { return call } }

// TestRunIsConcurrent: all goroutines are inside at once, each calls its own function, and no
// other.
func TestRunIsConcurrent(t *testing.T) {
	const goroutines = 4
	var calls [goroutines]atomic.Int64
	var first atomic.Int64
	all := make(chan struct{}) // closed when every function was called
	plan := Plan{Goroutines: goroutines, For: 100 * time.Millisecond}
	s, err := Run(t.Context(), plan, func(i int) Call { // hangs if they are fewer
		return func(context.Context) (bool, error) {
			if calls[i].Add(1) == 1 && first.Add(1) == goroutines {
				close(all)
			}
			<-all
			return true, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for i := range calls {
		sum += calls[i].Load()
	}
	if s.Elapsed < plan.For || s.Decisions() > sum || s.All != sum {
		t.Errorf("%d and %d decisions of %d calls in %s", s.Decisions(), s.All, sum, s.Elapsed)
	}
}

// TestRunLeavesTheWarmUpOut: calls that end before it is over do not count, and are not timed.
func TestRunLeavesTheWarmUpOut(t *testing.T) {
	const warm = 20 * time.Millisecond
	began, early := time.Now(), int64(0)
	s, err := Run(t.Context(), Plan{Goroutines: 1, Warm: warm, For: warm, Timed: true},
		everywhere(func(context.Context) (bool, error) {
			if time.Since(began) < warm/2 {
				early++
			}
			return true, nil
		}))
	if err != nil || s.Allowed+early > s.All || early > 0 && s.Allowed == s.All {
		t.Errorf("%d of %d calls count, %d were early, err %v", s.Allowed, s.All, early, err)
	}
	if s.Allowed > 10 && s.Times.Percentile(100) <= 0 {
		t.Error("no call was timed")
	}
}

// TestRunAllocatesNothing: a million calls may allocate what starting and observing them takes.
func TestRunAllocatesNothing(t *testing.T) {
	const calls = 1_000_000
	got := testing.AllocsPerRun(1, func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		_, _ = Run(ctx, Plan{Goroutines: 1, For: time.Hour}, everywhere(func(context.Context) (bool, error) {
			if n++; n == calls {
				cancel()
			}
			return false, nil
		}))
	})
	if got > calls/1000 {
		t.Errorf("%v allocations in %d calls", got, calls)
	}
}

// TestRunWaitsForADecision as long as it has patience: here half a second passes before there is
// one.
func TestRunWaitsForADecision(t *testing.T) {
	for patience, ends := range map[time.Duration]time.Duration{0: 50, 220: 220, 1000: 550} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			plan := Plan{Goroutines: 1, For: 50 * time.Millisecond, Patience: patience * time.Millisecond}
			s, err := Run(t.Context(), plan,
				everywhere(func(ctx context.Context) (bool, error) {
					if err := Sleep(ctx, 9*time.Millisecond); err != nil {
						return false, err
					}
					if time.Since(began) < 500*time.Millisecond {
						return false, context.DeadlineExceeded
					}
					return true, nil
				}))
			if err != nil || (s.Decisions() > 0) != (ends > 500) || s.Failed == 0 ||
				s.Elapsed != ends*time.Millisecond {
				t.Errorf("patience of %d ms: %d decisions in %s, err %v", patience, s.Decisions(), s.Elapsed, err)
			}
		})
	}
}
