package faults

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A new limit is served within a second of its first call, and can be changed, although any one of
// three nodes is down, and has been since before the process began.
func TestANewLimitWhileAnyNodeIsDown(t *testing.T) {
	for name, change := range map[string]func(*shardlimit.Config){
		"takeover": limittest.TakesOver, "no takeover": func(*shardlimit.Config) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 3)
				fl.Punctual = true
				time.Sleep(2 * time.Minute) // the servers have run for a while
				for down := range nodes {
					for i, n := range nodes {
						n.Down.Store(i == down)
					}
					client, dead, unchanged := fl.Client(t, change), 0, 0
					var last *shardlimit.Limiter
					for i := range 8 {
						limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
						l := limittest.Limiter(t, client, fmt.Sprint("l", down, i), limit)
						last = l
						begun := time.Now()
						for d, err := l.Allow(t.Context()); err != nil || !d.Allowed; d, err = l.Allow(t.Context()) {
							if time.Since(begun) > time.Second {
								dead++
								break
							}
							time.Sleep(20 * time.Millisecond)
						}
						limit.Permits = 600
						if err := l.SetLimit(t.Context(), limit); l.Limit().Permits != 600 {
							unchanged++
							_ = err
						}
					}
					if dead > 0 || unchanged > 0 {
						t.Errorf("with n%d down: of 8 new limits %d are dead, %d cannot be changed", down, dead,
							unchanged)
					}
					nodes[down].Down.Store(false)
					for range 12 { // who is back is told where the records are by those that go on
						time.Sleep(10 * time.Second)
						_, _ = last.Allow(t.Context())
					}
					client.Close()
				}
			})
		})
	}
}
