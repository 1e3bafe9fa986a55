package limit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// listener is a limit as its lanes ask and tell it something.
type listener struct{ *Core }

// Refresh has the limit's record read again in good time.
func (c *Core) Refresh() { c.RefreshAt(c.Process.Clock.Elapsed()) }

// RefreshAt does so at this time elapsed.
func (c *Core) RefreshAt(elapsed clock.Elapsed) {
	c.Record().RefreshAt(elapsed)
	if r := c.Routes.Load(); r != nil && r.fence != nil {
		r.fence.RefreshAt(elapsed)
	}
}

// Belief returns what a call relies on that works with the layout of this epoch.
func (c listener) Belief(epoch int64, elapsed clock.Elapsed) dispatch.Belief {
	c.RefreshAt(elapsed)
	r := c.Record()
	return dispatch.Belief{Until: r.Believed(epoch, elapsed), Known: r.Age(), Expired: r.Expired(elapsed)}
}

// Confirm makes sure that the layout of this process may be relied on, at most until ctx ends,
// since a read that began at that time elapsed or later. A key takes over what follows from its
// family's record then: the layout may have become another one.
func (c listener) Confirm(ctx context.Context, since clock.Elapsed) error {
	err := c.Record().ConfirmSince(ctx, since)
	if err == nil {
		c.Current()
	}
	return err
}

// Learned compares what a shard said with what the process believed, and gives back what was
// granted for callers who had left.
func (c listener) Learned(l *dispatch.Lane, n dispatch.News) {
	switch {
	case n.HasRoom:
		c.callers.Freed(true)
		return
	case n.Unclaimed != nil:
		if lost := c.callers.GiveBack(n.Unclaimed); lost > 0 {
			c.Process.Telemetry.Lost(c.Metrics, lost)
		}
		return
	}
	if n.Status == script.Lost || n.Status == script.Fresh && c.Family == nil && n.Operation != telemetry.Propose {
		// Whatever the shard knew of a layout may be lost, and the record with it. Whoever declares
		// the limit next must find ours there: now, and not when this process happens to read it
		// again.
		c.Record().Soon()
	}
	if n.Status == script.Lost {
		c.Process.Config.Logger.Warn("shard had lost its memory",
			"limiter", c.Title(), "shard", l.Tag(), "node", l.Home)
	}
	if r := c.Routes.Load(); n.Epoch > n.Believed && r != nil && n.Epoch > r.Layout.Epoch {
		c.Record().Behind(n.Epoch)
	}
}
