package shardlimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestWaitersOfASetAreServedInOrder(t *testing.T) {
	t.Parallel()
	c := standalone(t).client(t)
	one := limiter(t, c, "a", shardlimit.PerHour(1))
	set := shardlimit.All(one, limiter(t, c, "b", shardlimit.PerHour(50)))
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
		awaitThat(t, "it is in line", func() bool { return set.Waiting() == i+1 })
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

func TestWaitersOfASetLeaveByContextDeadlineAndClose(t *testing.T) {
	t.Parallel()
	c := standalone(t).client(t)
	set := shardlimit.All(limiter(t, c, "a", shardlimit.PerHour(1)), limiter(t, c, "b", shardlimit.PerHour(5)))
	if err := set.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := set.Wait(shortly(t, time.Minute)); !errors.Is(err, shardlimit.ErrWaitTooLong) {
		t.Errorf("a deadline that cannot be met: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	for i, ctx := range []context.Context{t.Context(), ctx} {
		go func() { errs <- set.Wait(ctx) }()
		awaitThat(t, "it waits", func() bool { return set.Waiting() == i+1 })
	}
	awaitThat(t, "the head knows how long", func() bool { return set.NotBefore() > 0 })
	if err := set.Wait(shortly(t, time.Minute)); !errors.Is(err, shardlimit.ErrWaitTooLong) {
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
	fl, posts := proxied(t, 1)
	l := limiter(t, fl.client(t), "l", shardlimit.PerHour(10))
	sent := posts[0].takes.Load()
	for name, set := range map[string]*shardlimit.Set{"nil": shardlimit.All(nil),
		"one and nil": shardlimit.All(l, nil)} {
		_, err := set.Allow(t.Context())
		for call, err := range map[string]error{
			"Allow": err, "Wait": set.Wait(t.Context()), "Settle": set.Settle(t.Context(), shardlimit.Decision{}, 0),
		} {
			if !errors.Is(err, shardlimit.ErrInvalidLimit) {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
	}
	if n := posts[0].takes.Load() - sent; n != 0 {
		t.Errorf("%d script calls", n)
	}
}
