package faults

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Where every shard of a limit is closed, because its node has lost its memory, callers pass who
// are to pass in an outage. The others are told when to come again.
func TestAClosedShardIsAnsweredByThePolicy(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for what, family := range map[string]bool{"a limit": false, "a key": true} {
		for name, policy := range map[string]shardlimit.OutagePolicy{"closed": shardlimit.FailClosed,
			"open": shardlimit.FailOpen, "local": shardlimit.FailLocal} {
			t.Run(what+" fails "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fl, nodes := limittest.BubbledNodes(t, 1)
					fl.Punctual = true
					c := fl.Client(t, limittest.OnOutage(policy), limittest.AfterLoss(shardlimit.Quarantine))
					time.Sleep(5 * time.Minute)
					l := func() *shardlimit.Limiter {
						if family {
							return limittest.Family(t, c, "f", limit).Limiter("user")
						}
						return limittest.Limiter(t, c, "l", limit)
					}()
					if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					time.Sleep(5 * time.Second)
					nodes[0].Redis.Restart()
					time.Sleep(time.Second)
					passes := policy != shardlimit.FailClosed
					for range 2 { // it asks, and then it knows
						d, err := l.Allow(t.Context())
						if err != nil || d.Allowed != passes || d.Degraded != passes {
							t.Errorf("%+v, %v", d, err)
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if err := l.Wait(ctx); passes != (err == nil) {
						t.Errorf("Wait: %v", err)
					}
				})
			})
		}
	}
}
