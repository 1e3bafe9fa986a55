package promises

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// While capacity moves to a node that is added, off one that drains, and to another number of
// shards, next to nothing of the limit stays unused.
func TestALimitIsUsedWhileItsShardsMove(t *testing.T) {
	limittest.InBubble(t, 4, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 200, Per: time.Second, Shards: 6}
		f.With(f.Nodes[:3]...).Limiter(t, limit)
		moved := f.Group(t, 2, "l", limit)
		drains := limittest.Limiter(t, f.With(limittest.Drained(f.Nodes,
			func(i int) bool { return i == 0 })...).Client(t), "l", limit)
		both := []*limittest.Demand{limittest.NewDemand(t, 8*time.Millisecond, moved[0]),
			limittest.NewDemand(t, 8*time.Millisecond, moved[1])}
		time.Sleep(2 * time.Second) // of the bubble's time
		from := both[0].Now()
		for i, by := range []*shardlimit.Limiter{moved[1], drains} {
			limittest.Must(t, by.Rebalance(t.Context()))
			time.Sleep(limit.Per)
			if got := len(limittest.Hosts(limittest.AwaitOneLayout(t, append(moved, drains)))); got != 4-i {
				t.Errorf("it is on %d nodes", got)
			}
		}
		for _, shards := range []int{16, 3} {
			next := limit
			next.Shards = shards
			limittest.Must(t, moved[0].SetLimit(t.Context(), next))
			time.Sleep(limit.Per)
		}
		to := both[0].Now()
		ops := append(both[0].Stop(), both[1].Stop()...)
		limittest.KeepsTo(t, limit, ops)
		used := history.Utilisation(limit.Permits, history.PerWindow(limit.Per, from, to, ops))
		if t.Logf("%.1f %% used while it moved", 100*used); used < 0.95 {
			t.Errorf("%.1f %% of the limit was used while it moved", 100*used)
		}
	})
}

// A limit that was deleted while a change moves its capacity is gone; nothing goes on to move it.
func TestDeleteWhileCapacityMoves(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 40, Per: 10 * time.Second, Shards: 2})
		limittest.MustGet(t, l, 40)
		limittest.Must(t, l.SetLimit(t.Context(), shardlimit.Limit{Permits: 20, Per: 10 * time.Second, Shards: 4}))
		limittest.Must(t, l.Delete(t.Context()))
		time.Sleep(2 * time.Second)
		if _, err := f.Client(t).Open(t.Context(), "l"); !errors.Is(err, shardlimit.ErrNotFound) {
			t.Errorf("the driver brought it back: %v", err)
		}
	})
}

// After Delete every call on a handle of that Client is ErrNotFound, also of callers that wait, and
// declares nothing. Client.Limiter declares the limit anew, with nothing used.
func TestAHandleEndsWithItsLimit(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		c := f.Client(t)
		limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2}
		l, again := limittest.Limiter(t, c, "l", limit), limittest.Limiter(t, c, "l", limit)
		limittest.DrainSlowly(t, l)
		waited := make(chan error)
		go func() { waited <- l.Wait(ctx) }()
		go func() { waited <- l.WaitN(ctx, 3) }()
		time.Sleep(time.Second)
		limittest.Must(t, l.Delete(ctx))
		for range 2 {
			limittest.ErrorIs(t, <-waited, shardlimit.ErrNotFound, "who waited")
		}
		calls := limittest.Calls(again, 3, shardlimit.Decision{})
		delete(calls, "Settle") // of nothing
		for name, call := range calls {
			limittest.ErrorIs(t, call(ctx), shardlimit.ErrNotFound, name)
		}
		if err := c.Rebalance(ctx); err != nil {
			t.Errorf("Client.Rebalance: %v", err)
		}
		time.Sleep(20 * time.Second) // nothing declares it in the background
		limittest.ErrorIs(t, limittest.Err(c.Open(ctx, "l")), shardlimit.ErrNotFound, "Open")
		l = limittest.Limiter(t, c, "l", shardlimit.PerMinute(7))
		limittest.MustGet(t, l, 7)
		limittest.ErrorIs(t, limittest.Err(again.Allow(ctx)), shardlimit.ErrNotFound, "a handle of before")
	})
}

// A process in use stores a limit that another one has deleted again, within 15 seconds of use.
func TestALimitInUseIsStoredAgainAfterDelete(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		c := f.Client(t)
		l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		other := f.Limiter(t, shardlimit.PerMinute(7))
		limittest.MustGet(t, other, 1)
		synctest.Wait() // the other process has read the record; else it could store it after Delete
		limittest.Must(t, l.Delete(ctx))
		for range 31 {
			time.Sleep(500 * time.Millisecond)
			limittest.Must(t, limittest.Err(other.Allow(ctx)))
		}
		synctest.Wait()
		if l, err := c.Open(ctx, "l"); err != nil || l.Limit().Permits != 10 {
			t.Errorf("%v", err)
		}
	})
}

// A shard has less than its target while its share is on its way to another node. A call for more
// than that is told to come after a pause.
func TestMoreThanHasArrivedOfAShareIsAskedForAfterAPause(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
		l := f.Limiter(t, limit)
		limittest.MustGet(t, l, 7)
		home := limittest.Peek(t, l).Shards[0].Node
		nodes := limittest.Drained(f.Nodes, func(i int) bool { return f.Nodes[i].Name == home })
		moved := f.With(nodes...).Limiter(t, limit)
		limittest.Must(t, moved.Rebalance(t.Context()))
		d, err := moved.AllowN(t.Context(), 5)
		if err != nil || d.Allowed || d.RetryAfter < 10*time.Millisecond {
			t.Errorf("%+v, %v", d, err)
		}
		hasLeft(t, moved, 3)
	})
}

// A process that has lowered a limit and has nothing else to do asks each shard that has permits to
// give up a few times a minute, however long the window is. The change is complete a minute after
// it can be.
func TestADriverAsksSeldom(t *testing.T) {
	for name, algorithm := range map[string]shardlimit.Algorithm{
		"sliding log": shardlimit.SlidingLog, "sliding counter": shardlimit.SlidingCounter,
	} {
		if !extent.Plays(int(algorithm)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const window = 4 * time.Hour
				f := limittest.Bubbled(t, 1)
				ctx := t.Context()
				shards := int64(4)
				if extent.Full {
					shards = 256
				}
				all := 100 * shards
				limit := shardlimit.Limit{Permits: all, Per: window, Shards: int(shards), Algorithm: algorithm}
				l := f.Limiter(t, limit)
				var last time.Time
				for range 8 { // an eighth of the shards each time
					if d, err := l.AllowUpTo(ctx, all/8); err != nil || d.Granted != all/8 {
						t.Fatalf("%+v, %v", d, err)
					}
					last = time.Now()
					time.Sleep(window / 24)
				}
				_, _ = l.AllowUpTo(ctx, all)
				limit.Permits /= 100 // one permit a shard: all must have left but for one of each
				limittest.Must(t, l.SetLimit(ctx, limit))
				time.Sleep(10 * time.Second)
				for minute := range 10 {
					before := f.Bubble[0].Calls.Load()
					time.Sleep(time.Minute)
					if n := f.Bubble[0].Calls.Load() - before; n > 8*shards {
						t.Fatalf("minute %d: %d script calls", minute, n)
					}
				}
				ends := last.Add(window + time.Minute)
				time.Sleep(time.Until(last.Add(window - 2*time.Second)))
				if st, err := l.Peek(ctx); err != nil || st.Settled {
					t.Errorf("two seconds before the last permits leave: settled %t, %v", st.Settled, err)
				}
				time.Sleep(time.Until(ends))
				if st, err := l.Peek(ctx); err != nil || !st.Settled {
					t.Errorf("a minute after the last permits have left: settled %t, %v", st.Settled, err)
				}
			})
		})
	}
}

// What is given back to a shard that gives its capacity up is noticed within half a minute, not
// when it would have left its window.
func TestADriverNoticesARefund(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: 24 * time.Hour, Shards: 2})
		d := limittest.MustGet(t, l, 100)
		limittest.Must(t, l.SetLimit(ctx, shardlimit.Limit{Permits: 50, Per: 24 * time.Hour, Shards: 2}))
		time.Sleep(time.Minute)
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("before the refund: settled %t, %v", st.Settled, err)
		}
		limittest.Must(t, l.Settle(ctx, d, 0))
		time.Sleep(31 * time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("half a minute after the refund: settled %t, %v", st.Settled, err)
		}
	})
}

// While a node is away that a change waits for, the process that made the change asks the others a
// few times a second at the most, and completes the change some seconds after the node is back.
func TestADriverBacksOffWhileANodeIsAway(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		c := f.Client(t, limittest.PatientFor(100*time.Millisecond))
		limit := shardlimit.Limit{Permits: 1200, Per: 100 * time.Millisecond, Shards: 12}
		var all []*shardlimit.Limiter
		for i := range 9 {
			all = append(all, limittest.Limiter(t, c, fmt.Sprint("l", i), limit))
			limittest.MustGet(t, all[i], 1200)
		}
		time.Sleep(5 * time.Second) // they are not new any more
		f.Bubble[2].Down.Store(true)
		var l *shardlimit.Limiter
		for _, l = range all {
			limit.Permits, limit.Shards = 1600, 16
			var away *shardlimit.ShardError
			if err := l.SetLimit(ctx, limit); errors.As(err, &away) && !errors.Is(err, shardlimit.ErrUnavailable) {
				break // the change is stored, and the limit has shards on the node that is away
			}
			l = nil
		}
		if l == nil {
			t.Fatal("no limit could be changed")
		}
		time.Sleep(10 * time.Second)
		before := f.Bubble[0].Calls.Load() + f.Bubble[1].Calls.Load()
		time.Sleep(time.Minute)
		n := f.Bubble[0].Calls.Load() + f.Bubble[1].Calls.Load() - before
		t.Logf("%d script calls in a minute", n)
		if n > 240 {
			t.Errorf("%d script calls in a minute while a node is away", n)
		}
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("while the node is away: settled %t, %v", st.Settled, err)
		}
		f.Bubble[2].Down.Store(false)
		time.Sleep(12 * time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("after the node is back: settled %t, %v", st.Settled, err)
		}
	})
}

// A change that follows while capacity still moves for the one before has a driver of its own.
func TestAChangeAfterAChangeIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 1600, Per: 4 * time.Hour, Shards: 4}
		l := limittest.Bubbled(t, 1).Limiter(t, limit)
		limittest.MustGet(t, l, 1600)
		for _, limit.Permits = range []int64{400, 200} {
			limittest.Must(t, l.SetLimit(t.Context(), limit))
			time.Sleep(10 * time.Minute) // the driver looks but twice a minute now
		}
		time.Sleep(limit.Per)
		if st := limittest.Peek(t, l); !st.Settled {
			t.Errorf("it still moves: %+v", st)
		}
	})
}

// What a bucket gained while something was reserved is there after the limit was changed and the
// reservation cancelled.
func TestACancelAfterAChangeGivesBackWhatWasGained(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Burst: 10, Shards: 1}
		limit.Algorithm = shardlimit.TokenBucket
		l := f.Limiter(t, limit)
		limittest.MustGet(t, l, 10)
		booked, err := l.Reserve(t.Context(), 10) // due in a second
		limittest.Must(t, err)
		for _, limit.Permits = range []int64{30, 31} {
			time.Sleep(300 * time.Millisecond)
			limittest.Must(t, l.SetLimit(t.Context(), limit))
		}
		limittest.Must(t, booked.Cancel(t.Context()))
		if st := limittest.Peek(t, l); st.Remaining != 10 { // 3 and 9 were gained
			t.Errorf("%d are there: %+v", st.Remaining, st)
		}
	})
}

// A limit that nobody used has no state at its shards. It can be lowered all the same while a node
// does not answer: the other shards keep what of their shares is to stay.
func TestAnUnusedLimitIsLoweredAlthoughANodeIsAway(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 900, Per: time.Hour, Shards: 3})
		f.Bubble[0].Down.Store(true)
		err := l.SetLimit(t.Context(), shardlimit.Limit{Permits: 300, Per: time.Hour, Shards: 3})
		if !errors.As(err, new(*shardlimit.ShardError)) || errors.Is(err, shardlimit.ErrUnavailable) {
			t.Fatalf("%v", err)
		}
		var granted int64
		for range 60 {
			if d, err := l.AllowUpTo(t.Context(), 300); err == nil {
				granted += d.Granted
			}
			time.Sleep(time.Second)
		}
		if granted != 200 {
			t.Errorf("%d granted, two of three shards have 200", granted)
		}
	})
}
