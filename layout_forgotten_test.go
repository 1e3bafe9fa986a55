package shardlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A process forgets the shards of a layout with it, however often a limit moves. Shards of an
// algorithm that the limit had before, or of a life of a node that is over, never return.
func TestShardsOfEarlierLayoutsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbled(t, 3)
		l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3})
		for i := range 8 {
			next := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3, Failover: i%2 == 0,
				Algorithm: []shardlimit.Algorithm{shardlimit.SlidingCounter, shardlimit.SlidingLog,
					shardlimit.TokenBucket}[i%3]}
			if err := l.SetLimit(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				_, _ = l.Allow(t.Context())
				time.Sleep(500 * time.Millisecond)
			}
			settled(t, l)
		}
		if lanes, seats := l.Remembers(); lanes > 6 || seats > 6 {
			t.Errorf("it has %d lanes and %d seats for a limit of three shards", lanes, seats)
		}
	})
}
