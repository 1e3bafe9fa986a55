package promises

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The windows of a FixedWindow begin at multiples of its length on the clock, on every node at the
// same time: the nodes of these tests have one clock.

func TestFixedWindowsEndAtTheClocksEdgeOnEveryNode(t *testing.T) {
	t.Parallel()
	for name, place := range limittest.Places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window = 31 * 24 * time.Hour
			l := limittest.Limiter(t, place(t).Client(t), "l",
				shardlimit.Limit{Permits: 80, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16})
			begin := time.Now()
			if d, err := l.AllowN(t.Context(), 80); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			asked := time.Now()
			d, err := l.Allow(t.Context())
			if err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			// The first of the shards that has permits again, and the last that is free again.
			for what, in := range map[string]time.Duration{"RetryAfter": d.RetryAfter, "ResetAfter": d.ResetAfter} {
				edge := asked.Add(in)
				off := time.Duration((edge.UnixNano()+int64(window)/2)%int64(window)) - window/2
				if took := time.Since(begin) + time.Millisecond; off < -took || off > took {
					t.Errorf("%s tells of %s, which is %s after an edge", what, edge, off)
				}
			}
		})
	}
}

// Everything is asked for at odd times, so that a shard whose windows began at another time would
// be asked on both sides of its edge.
func TestNoFixedWindowIsOverOnAnyNodes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "four nodes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const permits, window = 60, 200 * time.Millisecond
			limit := shardlimit.Limit{Permits: permits, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16}
			both := limittest.AsOne(limittest.Places[name](t).Group(t, 2, "l", limit))
			held := make(map[int64]int64) // by window: the permits of calls that began and ended in it
			most := int64(0)
			// At least one call must begin and end in the same window, however slow the machine is.
			for round, begun := 0, time.Now(); round < 30 || most == 0 &&
				time.Since(begun) < limittest.Patience; round++ {
				from := time.Now().UnixNano() / int64(window)
				d, err := both[round%2].AllowUpTo(t.Context(), permits)
				if err != nil {
					t.Fatal(err)
				}
				if to := time.Now().UnixNano() / int64(window); from == to {
					held[to] += d.Granted
					most = max(most, held[to])
				}
				limittest.Pause(t.Context(), rand.N(window+window/5))
			}
			if most > permits || most == 0 {
				t.Errorf("a window of %d permits held %d", permits, most)
			}
		})
	}
}
