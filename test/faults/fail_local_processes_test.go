package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Ten processes were given one Participant name. Where each enforces a part of the limit, the parts
// add up to no more than the limit.
func TestFailLocalCountsProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 1)
		fl.Punctual = true
		limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1}
		var limiters []*shardlimit.Limiter
		for range 10 {
			limiters = append(limiters, limittest.Limiter(t, fl.Client(t, limittest.OnOutage(shardlimit.FailLocal),
				func(c *shardlimit.Config) { c.Participant = "web" }), "l", limit))
		}
		for range 40 {
			for _, l := range limiters {
				_, _ = l.Allow(t.Context())
			}
			time.Sleep(time.Second)
		}
		nodes[0].Down.Store(true)
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
