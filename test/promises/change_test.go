package promises

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// While capacity moves to a node that is added, off one that drains, and to another number of
// shards, little of the limit stays unused.
func TestALimitIsUsedWhileItsShardsMove(t *testing.T) {
	limittest.InBubble(t, 4, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 200, Per: time.Second, Shards: 6}
		f.With(f.Nodes[:3]...).Limiter(t, limit)
		moved := f.Group(t, 2, "l", limit)
		drains := limittest.Limiter(t, f.With(limittest.Drained(f.Nodes,
			func(i int) bool { return i == 0 })...).Client(t), "l", limit)
		demand := limittest.NewDemand(t, 4*time.Millisecond, moved...)
		time.Sleep(2 * time.Second) // of the bubble's time
		from := demand.Now()
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
		to, ops := demand.Now(), demand.Stop()
		limittest.KeepsTo(t, limit, ops)
		used := history.Utilisation(limit.Permits, history.PerWindow(limit.Per, from, to, ops))
		if t.Logf("%.1f %% used while it moved", 100*used); used < 0.92 { // 93.6 to 99 in 120 plays
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
		limittest.ErrorIs(t, limittest.Err(f.Client(t).Open(t.Context(), "l")), shardlimit.ErrNotFound)
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
		limittest.Must(t, c.Rebalance(ctx))
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
		if d := limittest.Denied(t, moved, 5); d.RetryAfter < 10*time.Millisecond {
			t.Errorf("%+v", d)
		}
		hasLeft(t, moved, 3)
	})
}

// A process that has lowered a limit and has nothing else to do asks each shard that has permits to
// give up a few times a minute, however long the window is. The change is complete a minute after
// it can be.
func TestADriverAsksSeldom(t *testing.T) {
	for i, algorithm := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter} {
		if !extent.Plays(i) {
			continue
		}
		limittest.RunInBubble(t, algorithm.String(), 1, func(t *testing.T, f limittest.Fleet) {
			const window = 4 * time.Hour
			shards := int64(4)
			if extent.Full {
				shards = 256
			}
			all := 100 * shards
			limit := shardlimit.Limit{Permits: all, Per: window, Shards: int(shards), Algorithm: algorithm}
			l := f.Limiter(t, limit)
			var last time.Time
			for range 8 { // an eighth of the shards each time
				limittest.MustGet(t, l, all/8)
				last = time.Now()
				time.Sleep(window / 24)
			}
			_, _ = l.AllowUpTo(t.Context(), all)
			limit.Permits /= 100 // one permit a shard: all must have left but for one of each
			limittest.Must(t, l.SetLimit(t.Context(), limit))
			time.Sleep(10 * time.Second)
			for minute := range 10 {
				atMost := sends(&f.Bubble[0].Calls)
				time.Sleep(time.Minute)
				atMost(t, 8*shards, "minute", minute)
			}
			time.Sleep(time.Until(last.Add(window - 2*time.Second)))
			settled(t, l, false, "two seconds before the last permits leave")
			time.Sleep(time.Minute + 2*time.Second)
			settled(t, l, true, "a minute after the last permits have left")
		})
	}
}

// While a node is away that a change waits for, the process that made the change asks the others a
// few times a second at the most, and completes the change some seconds after the node is back.
func TestADriverBacksOffWhileANodeIsAway(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 1200, Per: 100 * time.Millisecond, Shards: 12}
		l := f.Limiter(t, limit, limittest.PatientFor(100*time.Millisecond))
		limittest.MustGet(t, l, 1200)
		time.Sleep(5 * time.Second) // it is not new any more
		f.Bubble[2].Down.Store(true)
		limit.Permits, limit.Shards = 1600, 16
		err := l.SetLimit(t.Context(), limit)
		if !errors.As(err, new(*shardlimit.ShardError)) || errors.Is(err, shardlimit.ErrUnavailable) {
			t.Fatalf("the change is not stored, or it has no shards on the node that is away: %v", err)
		}
		time.Sleep(10 * time.Second)
		first, second := sends(&f.Bubble[0].Calls), sends(&f.Bubble[1].Calls)
		time.Sleep(time.Minute)
		first(t, 120, "a minute while a node is away")
		second(t, 120, "a minute while a node is away")
		settled(t, l, false, "while the node is away")
		f.Bubble[2].Down.Store(false)
		time.Sleep(12 * time.Second)
		settled(t, l, true, "after the node is back")
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
