package promises

import (
	"context"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A limit is lowered from ten to three while ten are wanted all the time, and raised again. After
// it was lowered no window that begins then has more than three; after it was raised the new one is
// used as soon as what is used leaves room.
func TestALoweredLimitHoldsFromTheNextWindowOn(t *testing.T) {
	t.Parallel()
	for _, a := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			f, _ := limittest.Independent(t, 2)
			ten := shardlimit.Limit{Permits: 10, Per: 500 * time.Millisecond, Algorithm: a, Shards: 2}
			three := ten
			three.Permits = 3
			limiters := limittest.AsOne(f.Group(t, 2, "l", ten))
			var record history.Recorder
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error)
			for _, l := range limiters {
				go func() {
					tally := record.Tally()
					for ctx.Err() == nil {
						start := history.Now()
						d, err := l.Allow(context.WithoutCancel(ctx))
						if err != nil {
							done <- err
							return
						}
						tally.Add(start, history.Now(), d.Granted)
						time.Sleep(5 * time.Millisecond) // a steady demand
					}
					done <- nil
				}()
			}
			used := func(n int64) func() bool {
				return func() bool { return limittest.Peek(t, limiters[0]).Used >= n }
			}
			limittest.AwaitThat(t, "ten are in use", used(9))
			if err := limiters[0].SetLimit(t.Context(), three); err != nil {
				t.Fatal(err)
			}
			lowered := history.Now()
			limittest.AwaitOneLayout(t, limiters)
			time.Sleep(3 * ten.Per) // how long it is in use; nothing is right because of it
			raised := history.Now()
			if err := limiters[1].SetLimit(t.Context(), ten); err != nil {
				t.Fatal(err)
			}
			// Seven are free, and no more than three can have been in use: they must not wait for
			// anything to leave the window.
			d, err := limiters[1].AllowUpTo(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			taken := history.Now()
			record.Tally().Add(raised, taken, d.Granted)
			stop()
			for range limiters {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			var atOnce int64
			for _, op := range record.Ops() { // a call that was under way may have been granted its permit before
				if op.End >= raised && op.Start <= taken {
					atOnce += op.Permits
				}
			}
			if atOnce < 7 {
				t.Errorf("%d permits were admitted when the limit had been raised from three to ten", atOnce)
			}
			limittest.KeepsTo(t, ten, record.Ops())
			worst := limittest.KeepsTo(t, three, between(lowered, raised, record.Ops()))
			if worst.Permits == 0 {
				t.Error("nothing was admitted under the lowered limit")
			}
		})
	}
}

// The number of shards changes 4, 16, 3 while all of the limit is wanted, over a window in which
// the change takes place and one in which most of what is logged is from before it.
func TestTheNumberOfShardsChangesUnderLoad(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]struct {
		fleet func(testing.TB) limittest.Fleet
		limit shardlimit.Limit
	}{
		"1s on three nodes": {func(tb testing.TB) limittest.Fleet { f, _ := limittest.Independent(tb, 3); return f },
			shardlimit.Limit{Permits: 500, Per: time.Second}},
		"4s on embedded nodes": {func(tb testing.TB) limittest.Fleet { return limittest.InProcess(tb, 3) },
			shardlimit.Limit{Permits: 400, Per: 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := place.limit
			limit.Shards = 4
			limiters := limittest.AsOne(place.fleet(t).Group(t, 3, "l", limit))
			callers := limittest.NewTraffic(t)
			callers.Start(2, limiters...)
			for _, shards := range []int{16, 3} {
				limittest.AwaitThat(t, "the limit is used",
					func() bool { return limittest.Peek(t, limiters[0]).Used >= limit.Permits*9/10 })
				limit.Shards = shards
				if err := limiters[shards%3].SetLimit(t.Context(), limit); err != nil {
					t.Fatal(err)
				}
				limittest.AwaitOneLayout(t, limiters)
				limittest.SharesSumTo(t, limiters[0], limit.Permits)
			}
			ops, err := callers.During(limit.Per + limit.Per/2)
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			worst := limittest.KeepsTo(t, limit, ops)
			t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
		})
	}
}

// While capacity moves to a node that is added and off one that drains, next to nothing of the
// limit stays unused.
func TestALimitIsUsedWhileItsShardsMove(t *testing.T) {
	limittest.InBubble(t, 4, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 6}
		limittest.Limiter(t, f.With(f.Nodes[:3]...).Client(t), "l", limit)
		moved := f.Group(t, 2, "l", limit)
		drains := limittest.Limiter(t, f.With(limittest.Drained(f.Nodes,
			func(i int) bool { return i == 0 })...).Client(t), "l", limit)
		both := []*limittest.Demand{limittest.NewDemand(t, 4*time.Millisecond, moved[0]),
			limittest.NewDemand(t, 4*time.Millisecond, moved[1])}
		time.Sleep(2 * time.Second) // of the bubble's time
		from := both[0].Now()
		for i, by := range []*shardlimit.Limiter{moved[1], drains} {
			if err := by.Rebalance(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(limittest.Hosts(limittest.AwaitOneLayout(t, append(moved, drains)))); got != 4-i {
				t.Errorf("it is on %d nodes", got)
			}
		}
		time.Sleep(limit.Per)
		to := both[0].Now()
		ops := append(both[0].Stop(), both[1].Stop()...)
		limittest.KeepsTo(t, limit, ops)
		used := history.Utilisation(limit.Permits, history.PerWindow(limit.Per, from, to, ops))
		if t.Logf("%.1f %% used while it moved", 100*used); used < 0.95 {
			t.Errorf("%.1f %% of the limit was used while it moved", 100*used)
		}
	})
}
