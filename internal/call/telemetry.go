package call

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// gauges reports the state of every limiter. Keys of families are left out: there may be millions.
func (c *Client) gauges(g telemetry.Gauges) {
	if !c.made.Load() {
		return
	}
	for node, lost := range c.Records.Fence.Nodes() {
		g.Node(node, lost)
	}
	for _, co := range c.all() {
		if co.Of != nil {
			continue
		}
		waiters := 0
		for _, q := range co.Members.waiting() {
			waiters += q.Len()
		}
		g.Waiters(co.Name, waiters)
		r := co.Routes.Load()
		if r == nil {
			continue
		}
		if r.Limit.Scope == limit.Global { // of which all use a part
			g.Limit(co.Name, r.Limit.Permits, r.Limit.Per)
		}
		for _, sh := range r.Shards {
			free, heard := sh.Known.Free()
			if !heard {
				free = -1
			}
			g.Shard(co.Name, sh.Tag(), sh.Site.Node, sh.Node.Ready(sh.Slot), free)
		}
	}
}

func (c *Target) decided(ctx context.Context, d *Decision, n, start int64, err error) {
	if !c.Process.Telemetry.Listens(ctx) {
		return
	}
	told := toldOf(d, n, err)
	c.Process.Telemetry.Decided(ctx, c.Metrics, &told, start)
}

// Waited reports a call that was blocked, or might have been.
func (c *Target) Waited(ctx context.Context, d *Decision, n, start int64, err error) {
	told := toldOf(d, n, err)
	c.Process.Telemetry.Waited(ctx, c.Metrics, &told, start)
}

// toldOf returns what is told of a call for n permits that ended so.
func toldOf(d *Decision, n int64, err error) telemetry.Decision {
	told := telemetry.Decision{Outcome: telemetry.Denied, Reason: d.Reason, Source: d.Source, Permits: n,
		Remaining: d.Remaining, RetryAfter: d.RetryAfter}
	switch {
	case errors.Is(err, context.Canceled):
		told.Outcome = telemetry.Canceled // also a caller that leaves while no node answers
	case errors.Is(err, limit.ErrWaitTooLong): // a denial
	case errors.Is(err, limit.ErrOverloaded):
		told.Outcome = telemetry.Shed
	case err != nil:
		told.Outcome = telemetry.Failed
	case d.Shadowed:
		told.Outcome, told.Permits = telemetry.Shadowed, d.Granted
	case d.Allowed && d.Degraded:
		told.Outcome, told.Permits = telemetry.Degraded, d.Granted
	case d.Allowed:
		told.Outcome, told.Permits = telemetry.Allowed, d.Granted
	}
	if told.Outcome != telemetry.Denied {
		told.Reason = 0
	}
	return told
}
