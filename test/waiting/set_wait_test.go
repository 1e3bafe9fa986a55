package waiting

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestWaitersOfASetLeaveInEveryWay(t *testing.T) {
	t.Parallel()
	c := limittest.Standalone(t).Client(t)
	one := limittest.Limiter(t, c, "a", shardlimit.PerHour(1))
	set := limittest.Set(1, one, limittest.Limiter(t, c, "b", shardlimit.PerHour(5)))
	limittest.Must(t, set.Wait(t.Context()))
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
	limittest.ErrorIs(t, <-errs, context.Canceled, "cancelled")
	c.Close()
	limittest.ErrorIs(t, <-errs, shardlimit.ErrClosed, "closed")
	limittest.ErrorIs(t, limittest.Err(set.Allow(t.Context())), shardlimit.ErrClosed, "after Close")
}

// Who waits for a limit alone and who waits in a Set, and any Set, stand in one line.
func TestSetsAndOthersWaitInOneLine(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		one := limittest.Limiter(t, c, "one", shardlimit.Limit{Permits: 1, Per: 10 * time.Second})
		limittest.MustGet(t, one, 1)
		served := make(chan int, 6)
		for i := range cap(served) {
			other := limittest.Limiter(t, c, fmt.Sprint(i), shardlimit.PerHour(5))
			wait := shardlimit.All(other.N(int64(i)), one.N(1)).Wait
			if i%2 == 0 {
				wait = one.Wait
			}
			go func() {
				if err := wait(t.Context()); err != nil {
					t.Error(err)
				}
				served <- i
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		if err := shardlimit.All(one.N(1)).Wait(limittest.Shortly(t, 50*time.Second)); !errors.Is(err,
			shardlimit.ErrWaitTooLong) {
			t.Errorf("a deadline that those before make impossible: %v", err)
		}
		for want := range cap(served) {
			if i := <-served; i != want {
				t.Errorf("caller %d was served in place of %d", i, want)
			}
		}
	})
}

// A Set takes nothing that is free past somebody who waits for more.
func TestASetOvertakesNobody(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 5, Per: 10 * time.Second, Shards: 1})
		limittest.MustGet(t, l, 3)
		served := make(chan string, 2)
		go func() { served <- fmt.Sprint("alone ", l.WaitN(t.Context(), 5)) }()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		go func() { served <- fmt.Sprint("set ", shardlimit.All(l.N(1)).Wait(t.Context())) }()
		if first, second := <-served, <-served; first != "alone <nil>" || second != "set <nil>" {
			t.Errorf("%s came before %s", first, second)
		}
	})
}

// Who leaves while it asks the others gives back what its line served it.
func TestWhoLeavesASetGivesBack(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		one := limittest.Limiter(t, c, "one", shardlimit.Limit{Permits: 1, Per: 10 * time.Second})
		other := limittest.Limiter(t, c, "other", shardlimit.PerHour(90))
		limittest.MustGet(t, one, 1)
		limittest.MustGet(t, other, 1) // so that its shard has state: the first call takes as long as a call may
		f.Bubble[0].Stuck.Store(int64(20 * time.Millisecond))
		for late := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- shardlimit.All(one.N(1), other.N(2)).Wait(ctx) }()
			time.Sleep(10*time.Second + time.Duration(10*late-5)*time.Millisecond)
			cancel()
			err := <-done
			time.Sleep(time.Second)
			used, before := limittest.Peek(t, one).Used+limittest.Peek(t, other).Used, int64(1)
			if err == nil || used != before {
				t.Errorf("left %d: %d permits are used, %v", late, used, err)
			}
			time.Sleep(20 * time.Second)
			limittest.MustGet(t, one, 1)
		}
	})
}

// A call that wants several permits of a limit with a long window is served when they are there.
func TestASetWaitsNoLongerThanItMust(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		tokens := limittest.Limiter(t, c, "tokens",
			shardlimit.Limit{Permits: 3600, Per: time.Hour, Algorithm: shardlimit.TokenBucket})
		requests := limittest.Limiter(t, c, "requests", shardlimit.PerSecond(1))
		for l, n := range map[*shardlimit.Limiter]int64{tokens: 3598, requests: 1} {
			limittest.MustGet(t, l, n)
		}
		if d, err := requests.Allow(t.Context()); err != nil || d.Allowed { // which is known then
			t.Fatal(d, err)
		}
		began := time.Now()
		limittest.Must(t, shardlimit.All(requests.N(1), tokens.N(5)).Wait(t.Context()))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %v, 3 s suffice", took)
		}
	})
}

// Each limit of a Set waits through an outage by its own policy, and a refusal because of it holds
// no longer than the outage may.
func TestASetWaitsByThePolicyOfEachLimit(t *testing.T) {
	for name, of := range map[string]struct {
		nodes  int
		policy shardlimit.OutagePolicy
	}{"all, WaitOut": {1, shardlimit.WaitOut}, "all, FailLocal": {1, shardlimit.FailLocal}, "half": {nodes: 2}} {
		limittest.RunInBubble(t, name, of.nodes, func(t *testing.T, away limittest.Fleet) {
			here := limittest.Bubbled(t, 1)
			away.Punctual, here.Punctual = true, true
			one := limittest.Limiter(t, away.Client(t, limittest.OnOutage(of.policy), func(c *shardlimit.Config) {
				c.Participants = 10
			}), "one", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: of.nodes})
			every := shardlimit.Limit{Permits: 1, Per: 8 * time.Second}
			other := limittest.Limiter(t, here.Client(t), "other", every)
			limittest.Settled(t, one)
			limittest.MustGet(t, one, 1) // its own part, in an outage
			away.Bubble[of.nodes-1].Down.Store(true)
			time.AfterFunc(5*time.Second, func() { away.Bubble[of.nodes-1].Down.Store(false) })
			switch name {
			case "all, FailLocal": // each limit refuses when it is asked
				limittest.MustGet(t, limittest.Limiter(t, here.Client(t), "other", every), 1)
			case "half": // each is known to refuse
				limittest.MustGet(t, other, 1)
				limittest.Exhaust(t, one, 1)
			}
			var calls sync.WaitGroup
			calls.Go(func() {
				for range 7 { // so that its process has heard that the node is back
					time.Sleep(time.Second)
					_, _ = one.Allow(t.Context())
				}
			})
			defer calls.Wait()
			began := time.Now()
			err := limittest.Set(1, one, other).Wait(limittest.Shortly(t, time.Minute))
			if took := time.Since(began); err != nil || took > 15*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}
