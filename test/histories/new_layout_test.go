package histories

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/race"
)

// TestACallOfManyShardsHearsOfANewLayout: while a process rests, another changes the
// algorithm again and again. The first call of the one that rested finds nothing at any shard that
// it knows, and is served by the others.
func TestACallOfManyShardsHearsOfANewLayout(t *testing.T) {
	if race.Enabled {
		return // see TestHistories
	}
	limit := shardlimit.Limit{Permits: 18, Per: 100 * time.Millisecond, Shards: 2}
	away := []time.Duration{100 * time.Microsecond, 300 * time.Microsecond}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &plan{
			Nodes: 2, Procs: []processPlan{{Nodes: []int{0, 1}, Latency: away}, {Nodes: []int{0, 1}, Latency: away}},
			Limits: []limitPlan{{Limit: limit}},
		})
		defer w.close()
		rested, other := w.procs[0].handle(w.limit[0]), w.procs[1].handle(w.limit[0])
		for i := range 20 {
			if d, err := rested.Allow(t.Context()); err != nil || !d.Allowed {
				t.Fatalf("call %d after a rest: allowed %t, %v", i, d.Allowed, err)
			}
			limit.Algorithm = shardlimit.SlidingCounter - limit.Algorithm
			if err := other.SetLimit(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30*time.Second + time.Duration(i)*7*time.Millisecond)
		}
	})
}
