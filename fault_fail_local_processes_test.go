package shardlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Ten processes were given one Participant name. Where each enforces a part of the limit, the parts
// add up to no more than the limit.
func TestFailLocalCountsProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 1)
		fl.punctual = true
		limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1}
		var limiters []*shardlimit.Limiter
		for range 10 {
			limiters = append(limiters, limiter(t, fl.client(t, onOutage(shardlimit.FailLocal),
				func(c *shardlimit.Config) { c.Participant = "web" }), "l", limit))
		}
		for range 40 {
			for _, l := range limiters {
				_, _ = l.Allow(t.Context())
			}
			time.Sleep(time.Second)
		}
		nodes[0].down.Store(true)
		got := int64(0)
		for _, l := range limiters {
			d, _ := l.AllowUpTo(t.Context(), limit.Permits)
			got += d.Granted
		}
		if got > limit.Permits || got < limit.Permits/2 {
			t.Errorf("%d of %d permits", got, limit.Permits)
		}
	})
}
