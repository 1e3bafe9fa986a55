package waiting

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestWaitersOfASetAreServedInOrder(t *testing.T) {
	t.Parallel()
	c := limittest.Standalone(t).Client(t)
	one := limittest.Limiter(t, c, "a", shardlimit.PerHour(1))
	set := limittest.Set(1, one, limittest.Limiter(t, c, "b", shardlimit.PerHour(50)))
	if err := set.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	const callers = 4
	served := make(chan int)
	for i := range callers {
		go func() {
			if err := set.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			served <- i
		}()
		limittest.AwaitThat(t, "it is in line", func() bool { return limittest.Waiting(one) == i+1 })
	}
	for next := range callers {
		if err := one.Reset(t.Context()); err != nil { // room for the next one
			t.Fatal(err)
		}
		if i := <-served; i != next {
			t.Errorf("caller %d was served in place of %d", i, next)
		}
	}
}

func TestWaitersOfASetLeaveInEveryWay(t *testing.T) {
	t.Parallel()
	c := limittest.Standalone(t).Client(t)
	one := limittest.Limiter(t, c, "a", shardlimit.PerHour(1))
	set := limittest.Set(1, one,
		limittest.Limiter(t, c, "b", shardlimit.PerHour(5)))
	if err := set.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := set.Wait(limittest.Shortly(t, time.Minute)); !errors.Is(err, shardlimit.ErrWaitTooLong) {
		t.Errorf("a deadline that cannot be met: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	for i, ctx := range []context.Context{t.Context(), ctx} {
		go func() { errs <- set.Wait(ctx) }()
		limittest.AwaitThat(t, "it waits", func() bool { return limittest.Waiting(one) == i+1 })
	}
	limittest.AwaitThat(t, "the head knows how long", func() bool { return limittest.NotBefore(one) > 0 })
	if err := set.Wait(limittest.Shortly(t, time.Minute)); !errors.Is(err, shardlimit.ErrWaitTooLong) {
		t.Errorf("behind another, a deadline that cannot be met: %v", err)
	}
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c.Close()
	if err := <-errs; !errors.Is(err, shardlimit.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := set.Allow(t.Context()); !errors.Is(err, shardlimit.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A Set of a limiter that is not there cannot be used, and says so before it asks anybody.
func TestASetOfNilReturnsAnError(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	l := limittest.Limiter(t, fl.Client(t), "l", shardlimit.PerHour(10))
	sent := posts[0].Takes.Load()
	for name, set := range map[string]*shardlimit.Set{"nil": limittest.Set(1, nil),
		"one and nil": limittest.Set(1, l, nil)} {
		_, err := set.Allow(t.Context())
		for call, err := range map[string]error{
			"Allow": err, "Wait": set.Wait(t.Context()), "Settle": set.Settle(t.Context(), shardlimit.Decision{}),
		} {
			if !errors.Is(err, shardlimit.ErrInvalidLimit) {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
	}
	if n := posts[0].Takes.Load() - sent; n != 0 {
		t.Errorf("%d script calls", n)
	}
}
