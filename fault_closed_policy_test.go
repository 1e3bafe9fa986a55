package shardlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
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
					fl, nodes := bubbledNodes(t, 1)
					fl.punctual = true
					c := fl.client(t, onOutage(policy), afterLoss(shardlimit.Quarantine))
					time.Sleep(5 * time.Minute)
					l := func() *shardlimit.Limiter {
						if family {
							return keyed(t, c, "f", limit).Limiter("user")
						}
						return limiter(t, c, "l", limit)
					}()
					if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					time.Sleep(5 * time.Second)
					nodes[0].redis.Restart()
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
