package shardlimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A limit that was deleted while a change moves its capacity is gone; nothing goes on to move it.
func TestDeleteWhileCapacityMoves(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, f fleet) {
		l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 40, Per: 10 * time.Second, Shards: 2})
		if d, err := l.AllowN(t.Context(), 40); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := l.SetLimit(t.Context(), shardlimit.Limit{Permits: 20, Per: 10 * time.Second, Shards: 4}); err != nil {
			t.Fatal(err)
		}
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := f.client(t).Open(t.Context(), "l"); !errors.Is(err, shardlimit.ErrNotFound) {
			t.Errorf("the driver brought it back: %v", err)
		}
	})
}

// While Redis answers, no call of a handle whose limit was deleted is answered by the outage
// policy: the first declares the limit anew, and all that come with it wait for that.
func TestAHandleThatIsUsedAfterDeleteDeclaresTheLimitAnew(t *testing.T) {
	for name, policy := range map[string]shardlimit.OutagePolicy{
		"FailClosed": shardlimit.FailClosed, "FailOpen": shardlimit.FailOpen, "FailLocal": shardlimit.FailLocal,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, f fleet) {
				limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 3}
				l := limiter(t, f.client(t, onOutage(policy)), "l", limit)
				for round := range 3 {
					var wg sync.WaitGroup
					var mu sync.Mutex
					granted := int64(0)
					for range 50 {
						wg.Go(func() {
							d, err := l.Allow(context.Background())
							if err != nil || d.Degraded {
								t.Errorf("round %d: %+v, %v", round, d, err)
							}
							mu.Lock()
							granted += d.Granted
							mu.Unlock()
						})
					}
					wg.Wait()
					if granted != limit.Permits {
						t.Errorf("round %d: %d permits were granted of %d", round, granted, limit.Permits)
					}
					if err := l.Delete(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// What only looks at a deleted limit does not declare it, nor does a second Delete; a wait and a
// change do.
func TestWhatDeclaresADeletedLimitAnew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f fleet) {
		ctx := t.Context()
		c := f.client(t)
		l := limiter(t, c, "l", shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		gone := func(after string) {
			t.Helper()
			time.Sleep(time.Second) // nothing declares it in the background
			if _, err := f.client(t).Open(ctx, "l"); !errors.Is(err, shardlimit.ErrNotFound) {
				t.Errorf("after %s: %v", after, err)
			}
		}
		there := func(after string) {
			t.Helper()
			if st, err := l.Peek(ctx); err != nil || st.Limit.Permits == 0 {
				t.Errorf("after %s: %+v, %v", after, st, err)
			}
			if _, err := f.client(t).Open(ctx, "l"); err != nil {
				t.Errorf("after %s: %v", after, err)
			}
			if err := l.Delete(ctx); err != nil {
				t.Fatal(err)
			}
		}
		there("the declaration")
		gone("Delete")
		for name, call := range map[string]func() error{
			"Peek":         func() error { _, err := l.Peek(ctx); return err },
			"Participants": func() error { _, err := l.Participants(ctx); return err },
			"Reset":        func() error { return l.Reset(ctx) },
			"Rebalance":    func() error { return l.Rebalance(ctx) },
		} {
			if err := call(); !errors.Is(err, shardlimit.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
			gone(name)
		}
		if err := l.Delete(ctx); err != nil {
			t.Errorf("a second Delete: %v", err)
		}
		gone("a second Delete")
		if got := l.Limit(); got.Permits != 10 {
			t.Errorf("Limit: %+v", got)
		}
		gone("Limit")
		if err := c.Rebalance(ctx); err != nil {
			t.Errorf("Client.Rebalance: %v", err)
		}
		gone("Client.Rebalance")
		for name, call := range map[string]func() error{
			"AllowUpTo": func() error { _, err := l.AllowUpTo(ctx, 3); return err },
			"WaitN":     func() error { return l.WaitN(ctx, 3) },
			"Reserve":   func() error { _, err := l.Reserve(ctx, 3); return err },
			"a Set":     func() error { _, err := shardlimit.All(l).Allow(ctx); return err },
			"SetLimit":  func() error { return l.SetLimit(ctx, shardlimit.PerMinute(5)) },
		} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			there(name)
		}
	})
}

// A limit that another process has stored again is found by the handle that had deleted it, and can
// be deleted again.
func TestALimitThatAnotherProcessStoresAgainIsFound(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, f fleet) {
		ctx := t.Context()
		limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2}
		l := limiter(t, f.client(t), "l", limit)
		if err := l.Delete(ctx); err != nil {
			t.Fatal(err)
		}
		other := limiter(t, f.client(t), "l", shardlimit.PerMinute(7))
		if d, err := other.Allow(ctx); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		st, err := l.Peek(ctx)
		if err != nil || st.Limit.Permits != 7 || st.Used != 1 {
			t.Errorf("%+v, %v", st, err)
		}
		synctest.Wait() // the other process has read the record; else it could store it after Delete
		if err := l.Delete(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client(t).Open(ctx, "l"); !errors.Is(err, shardlimit.ErrNotFound) {
			t.Errorf("after Delete: %v", err)
		}
		// A process that is in use all the time stores what it knows within 15 seconds of use.
		for range 31 {
			time.Sleep(500 * time.Millisecond)
			if _, err := other.Allow(ctx); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if st, err = l.Peek(ctx); err != nil || st.Limit.Permits != 7 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// Both handles work when the name has been declared again by Limiter before the old handle is used.
func TestAnOldHandleJoinsTheLimitThatWasDeclaredAfterDelete(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, f fleet) {
		ctx := t.Context()
		c := f.client(t)
		old := limiter(t, c, "l", shardlimit.PerMinute(3))
		if err := old.Delete(ctx); err != nil {
			t.Fatal(err)
		}
		made := limiter(t, c, "l", shardlimit.PerMinute(8))
		if d, err := made.AllowN(ctx, 5); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err := old.AllowUpTo(ctx, 100); err != nil || d.Granted != 3 || d.Limit != 8 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// With every node away nothing is deleted, and the limit is in force as before.
func TestDeleteWhileRedisIsAwayChangesNothing(t *testing.T) {
	t.Parallel()
	f, posts := proxied(t, 2)
	l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2})
	if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, p := range posts {
		p.proxy.Stall(true)
	}
	err := l.Delete(shortly(t, 50*time.Millisecond))
	for _, p := range posts {
		p.proxy.Stall(false)
	}
	if !errors.Is(err, shardlimit.ErrUnavailable) {
		t.Errorf("Delete: %v", err)
	}
	awaitThat(t, "the nodes answer", func() bool { st, err := l.Peek(t.Context()); return err == nil && st.Used == 10 })
}
