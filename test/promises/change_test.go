package promises

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
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
			_, err := other.Allow(ctx)
			limittest.Must(t, err)
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
