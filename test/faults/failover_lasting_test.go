package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A takeover counts a reservation of a longer window, although the limit has settled with a shorter
// one since.
func TestAReservationOfALongerWindowStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		long := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
		l := limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", long)
		limittest.Settled(t, l)
		limittest.DrainSlowly(t, l)
		r, err := l.Reserve(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		short := long
		short.Per = time.Second
		if err := l.SetLimit(t.Context(), short); err != nil {
			t.Fatal(err)
		}
		limittest.Settled(t, l)
		for i, n := range fl.Nodes {
			nodes[i].Down.Store(n.Name == limittest.Peek(t, l).Shards[0].Node)
		}
		for r.Delay() > 300*time.Millisecond {
			_, _ = l.Allow(t.Context())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(r.Delay()) // from now on its permits are used
		for end := time.Now().Add(900 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if d, err := l.Allow(t.Context()); err == nil && d.Granted > 0 {
				t.Fatal("a permit beside a reservation for all of them")
			}
		}
	})
}

// What is wholly on a lost node is served elsewhere as soon as nobody relies on the node, and what
// was granted or reserved there has left the window: two windows.
func TestATakeoverWaitsForTwoWindows(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for name, family := range map[string]bool{"a limit": false, "a key": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 3)
				fl.Punctual = true
				var l *shardlimit.Limiter
				if client := fl.Client(t, limittest.TakesOver); family {
					l = limittest.Family(t, client, "f", limit).Limiter("user")
				} else {
					l = limittest.Limiter(t, client, "l", limit)
				}
				limittest.Settled(t, l)
				limittest.DrainSlowly(t, l)
				for i, n := range fl.Nodes {
					nodes[i].Down.Store(n.Name == limittest.Peek(t, l).Shards[0].Node)
				}
				lost := time.Now()
				least, most := 2*limit.Per, 2*limit.Per+17*time.Second
				for time.Since(lost) <= most {
					if d, err := l.Allow(t.Context()); err == nil && d.Granted > 0 {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if served := time.Since(lost); served < least || served > most {
					t.Errorf("it is served after %v, want %v to %v", served, least, most)
				}
			})
		})
	}
}

// Batches that wait in line are booked a window ahead. A takeover counts them until they have
// left the window, although their process cannot be reached either.
func TestWhatWasBookedAheadOutlivesItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		var cut atomic.Bool
		limit := shardlimit.Limit{Permits: 30, Per: time.Minute, Shards: 3}
		var far []*shardlimit.Limiter
		for range 2 {
			far = append(far, limittest.Limiter(t, fl.CutBy(&cut).Client(t, limittest.Wary, func(c *shardlimit.Config) {
				c.OnOutage = shardlimit.WaitOut
			}), "l", limit))
		}
		near := limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", limit)
		limittest.Settled(t, near)
		begun := time.Now()
		var record history.Recorder
		tally := record.Tally()
		granted := func(from time.Time, n int64) { tally.Add(int64(from.Sub(begun)), int64(time.Since(begun)), n) }
		limittest.DrainSlowly(t, near)
		granted(begun, limit.Permits)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		var waiting sync.WaitGroup
		for _, l := range far {
			waiting.Go(func() {
				if err := l.WaitN(ctx, limit.Permits); err == nil {
					granted(time.Now(), limit.Permits)
				}
			})
			time.Sleep(200 * time.Millisecond) // it has booked
		}
		cut.Store(true)
		nodes[0].Down.Store(true)
		for time.Since(begun) < 5*time.Minute {
			from := time.Now()
			if d, err := near.Allow(t.Context()); err == nil {
				granted(from, d.Granted)
			}
			time.Sleep(500 * time.Millisecond)
		}
		cancel()
		waiting.Wait()
		ops := record.Ops()
		limittest.KeepsTo(t, limit, ops)
		if total := history.Total(ops); total < 4*limit.Permits {
			t.Errorf("%d permits in all: what was booked was not used, or nothing was taken over", total)
		}
	})
}

// A process that rested while a limit was lowered reserves no farther ahead than the new limit
// allows: a takeover does not wait for more.
func TestWhoRestedReservesByTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, _ := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		before := shardlimit.Limit{Permits: 1000, Per: time.Second, Shards: 1}
		rests, other := limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", before),
			limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", before)
		limittest.Settled(t, other)
		after := before
		after.Permits = 10
		if err := other.SetLimit(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		for range 25 {
			time.Sleep(time.Second)
			if _, err := other.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var farthest time.Duration
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				r, err := rests.Reserve(t.Context(), 10)
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				farthest = max(farthest, r.Delay())
			})
		}
		calls.Wait()
		if farthest == 0 || farthest > 3*after.Per {
			t.Errorf("reserved %v ahead", farthest)
		}
	})
}
