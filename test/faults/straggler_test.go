package faults

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// One of the nodes that keep a family's record stalls. Whatever the call timeout is, new keys on
// other nodes are served at once.
func TestStragglersAreNotWaitedFor(t *testing.T) {
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 6 * time.Second,
		20 * time.Second} {
		for place := range 3 {
			t.Run(fmt.Sprint(timeout, " place ", place), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { straggler(t, timeout, place) })
			})
		}
	}
}

func straggler(t *testing.T, timeout time.Duration, place int) {
	fl, nodes := limittest.BubbledNodes(t, 5)
	fl.Punctual = true
	c := fl.Client(t, limittest.PatientFor(timeout))
	users := limittest.Family(t, c, "users", shardlimit.PerMinute(10))
	stalls := limittest.RecordNodes(c)[place]
	home := func(key string) string { return limittest.Peek(t, users.Limiter(key)).Shards[0].Node }
	time.Sleep(5 * time.Minute) // their memory is whole
	_, _ = users.Limiter("first").Allow(t.Context())
	var keys []string
	for i := 0; len(keys) < 300; i++ {
		if key := fmt.Sprint("user ", i); home(key) != stalls {
			keys = append(keys, key)
		}
	}
	for i, n := range fl.Nodes {
		if n.Name == stalls {
			nodes[i].Paused.Store(time.Now().Add(time.Minute).UnixNano())
		}
	}
	bad, slowest := 0, time.Duration(0)
	for _, key := range keys {
		begun := time.Now()
		d, err := users.Limiter(key).Allow(t.Context())
		if err != nil || !d.Allowed {
			bad++
		}
		slowest = max(slowest, time.Since(begun))
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Minute) // it goes on
	if bad > 0 || slowest > 250*time.Millisecond {
		t.Errorf("%d of %d new keys were not served, the slowest call took %v", bad, len(keys), slowest)
	}
}
