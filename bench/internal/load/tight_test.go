package load

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestGroup(t *testing.T) {
	boom := errors.New("boom")
	var tallied [1]tally
	n := 0
	allow := func(context.Context) (bool, error) {
		n++
		switch {
		case n%4 == 0:
			return true, boom // the error counts
		case n%2 == 0:
			return false, nil
		}
		return true, nil
	}
	if err := group(t.Context(), 16, allow, &tallied[0]); !errors.Is(err, boom) {
		t.Errorf("err %v, want boom", err)
	}
	if s := sum(tallied[:]); s.Allowed != 8 || s.Denied != 4 || s.Failed != 4 || n != 16 {
		t.Errorf("%+v of %d calls, want 8 allowed, 4 denied, 4 failed", s, n)
	}
	allow = func(context.Context) (bool, error) { return true, nil }
	if err := group(t.Context(), 16, allow, &tallied[0]); err != nil {
		t.Errorf("err %v without a failure", err)
	}
}

func TestGroupAfter(t *testing.T) {
	n := 1
	for range 10 {
		n = groupAfter(n, time.Microsecond)
	}
	if n != tightCalls {
		t.Errorf("groups of quick calls grow to %d, want %d", n, tightCalls)
	}
	for range 10 {
		n = groupAfter(n, time.Millisecond)
	}
	if n != 1 {
		t.Errorf("groups of slow calls shrink to %d, want 1", n)
	}
}

// TestTightAllocatesNothing is what it is for: a million calls may allocate what
// starting and observing them takes, and no more.
func TestTightAllocatesNothing(t *testing.T) {
	const calls = 1_000_000
	got := testing.AllocsPerRun(1, func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		_, _ = RunTight(ctx, Plan{Goroutines: 1, For: time.Hour}, func(context.Context) (bool, error) {
			if n++; n == calls {
				cancel()
			}
			return false, nil
		})
	})
	if got > calls/1000 {
		t.Errorf("%v allocations in %d calls", got, calls)
	}
}

func TestRunTight(t *testing.T) {
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := RunTight(ctx, Plan{Goroutines: 2, For: time.Hour},
		func(context.Context) (bool, error) { cancel(); return true, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want canceled", err)
	}
	s, err := RunTight(t.Context(), Plan{Goroutines: 2, Warm: time.Millisecond, For: time.Millisecond},
		func(context.Context) (bool, error) { return false, boom })
	if err != nil || s.Decisions() != 0 || !errors.Is(s.Err, boom) {
		t.Errorf("%+v, err %v; want no decisions and boom", s, err)
	}
	if _, err := RunTight(t.Context(), Plan{Goroutines: 1, Before: func() error { return boom }},
		func(context.Context) (bool, error) { return true, nil }); !errors.Is(err, boom) {
		t.Errorf("err = %v, want boom", err)
	}
}
