package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// One process calls the servers by names of its own. It harms nobody, also where it comes first to
// servers that were restarted empty, one after the other.
func TestMisnamedProcessShutsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 3)
		limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
		right := limittest.Limiter(t, f.Client(t, limittest.TakesOver), "l", limit)
		limittest.Settled(t, right)
		canary := f.Called("x", "y", "z").Client(t, limittest.TakesOver)
		calls, failed := 0, 0
		serve := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				calls++
				if _, err := right.Allow(t.Context()); err != nil {
					failed++
				}
			}
		}
		for _, s := range servers {
			s.Restart()
			if l, err := canary.Limiter(t.Context(), "l", limit); err == nil {
				_, _ = l.Allow(t.Context())
			}
			serve(4 * time.Minute)
		}
		canary.Close()
		serve(time.Minute)
		if failed > 0 {
			t.Errorf("%d of %d calls of the process with the right names failed", failed, calls)
		}
	})
}
