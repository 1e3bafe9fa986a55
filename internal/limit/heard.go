package limit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is what a limit is to its lanes.

// wayTo returns the way of a lane to a shard.
func (c *Core) wayTo(s shard.Shard) *lane.Way {
	w := &lane.Way{
		Metrics: c.Metrics, Slot: s.Slot, Home: s.Node, Algorithm: s.Algorithm, Life: s.Life, Keyed: c.Family != nil,
	}
	if a, err := AlgorithmNamed(s.Algorithm); err == nil { // else no call gets as far as to need the keys
		w.Space = script.Algorithm(a).Space(c.Process.Config.KeyPrefix, shard.Tag(s.Slot), s.Life)
		w.Bursty, w.Paced = a.Bursty(), a == LeakyBucket
	}
	return w
}

// noTerms returns the terms of a shard that this process has no layout for: calls find what is
// there and create nothing.
func noTerms(algorithm string) *lane.Terms {
	a, _ := AlgorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: script.Algorithm(a)}.Proposal() // of epoch 0, which is always valid
	return &lane.Terms{Shards: 1, Proposal: p}
}

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
func (c *Core) Belief(epoch int64, elapsed clock.Elapsed) lane.Belief {
	c.RefreshAt(elapsed)
	r := c.Record()
	return lane.Belief{Until: r.Believed(epoch, elapsed), Known: r.Age(), Expired: r.Expired(elapsed)}
}

// Expired reports whether a layout was confirmed, but too long ago.
func (c *Core) Expired(elapsed clock.Elapsed) bool { return c.Record().Expired(elapsed) }

// Confirm makes sure that the layout of this process may be relied on, at most until ctx ends,
// since a read that began at that time elapsed or later. A key takes over what follows from its
// family's record then: the layout may have become another one.
func (c *Core) Confirm(ctx context.Context, since clock.Elapsed) error {
	err := c.Record().ConfirmSince(ctx, since)
	if err == nil {
		c.Current()
	}
	return err
}

// Learned compares what a shard said with what the process believed, and gives back what was
// granted for callers who had left.
func (c *Core) Learned(l *lane.Lane, n lane.News) {
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
		c.Process.Config.Logger.Warn("shard had lost its memory", "limiter", c.Title(), "shard", l.Tag(), "node", l.Home)
	}
	if r := c.Routes.Load(); n.Epoch > n.Believed && r != nil && n.Epoch > r.Layout.Epoch {
		c.Record().Behind(n.Epoch)
	}
}

// Failed returns the error of a call to a shard as callers see it.
func (c *Core) Failed(l *lane.Lane, err error) error { return c.FailedAt(SiteOf(l).Location, err) }
