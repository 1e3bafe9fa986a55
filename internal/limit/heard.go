package limit

import (
	"context"
	"time"

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
		w.Space = a.inScripts().Space(c.Process.Config.KeyPrefix, shard.Tag(s.Slot), s.Life)
		w.Bursty, w.Paced = a.Bursty(), a == LeakyBucket
	}
	return w
}

// noTerms returns the terms of a shard that this process has no layout for: calls find what is
// there and create nothing.
func noTerms(algorithm string) *lane.Terms {
	a, _ := AlgorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: a.inScripts()}.Proposal() // of epoch 0, which is always valid
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

// KnownFor returns for how long the limit is known to have existed.
func (c *Core) KnownFor() time.Duration { return c.Record().Age() }

// Confirmed returns until when a layout of this epoch may be relied on, 0 if it may not.
func (c *Core) Confirmed(epoch int64, elapsed clock.Elapsed) clock.Elapsed {
	return c.Record().Believed(epoch, elapsed)
}

// Expired reports whether a layout was confirmed, but too long ago.
func (c *Core) Expired(elapsed clock.Elapsed) bool { return c.Record().Expired(elapsed) }

// ConfirmSince makes sure that the layout of this process may be relied on, at most until ctx ends,
// since a read that began at that time elapsed or later.
func (c *Core) ConfirmSince(ctx context.Context, since clock.Elapsed) error {
	return c.follows(c.Record().ConfirmSince(ctx, since))
}

// ConfirmWithin makes sure of that by any read, in at most half the time of a call. If the record
// did not answer in that time, it fails at once for a while.
func (c *Core) ConfirmWithin(ctx context.Context) error {
	return c.follows(c.Record().ConfirmWithin(ctx))
}

// follows has a key take over what follows from its family's record once that was confirmed: the
// layout may have become another one.
func (c *Core) follows(err error) error {
	if err == nil {
		c.Current()
	}
	return err
}

// Heard compares what a shard said with what the process believed.
func (c *Core) Heard(l *lane.Lane, n lane.News) {
	if n.Status == script.Lost || n.Status == script.Fresh && c.Family == nil && n.Operation != telemetry.Propose {
		// Whatever the shard knew of a layout may be lost, and the record with it. Whoever declares
		// the limit next must find ours there: now, and not when this process happens to read it
		// again.
		c.Record().Soon()
	}
	if n.Status == script.Lost {
		c.Process.Log().Warn("shard had lost its memory", "limiter", c.Title(), "shard", l.Tag(), "node", l.Home)
	}
	if r := c.Routes.Load(); n.Epoch > n.Believed && r != nil && n.Epoch > r.Layout.Epoch {
		c.Record().Behind(n.Epoch)
	}
}

// Elsewhere returns what is free now on the other shards of the limit, as far as this process
// knows.
func (c *Core) Elsewhere(l *lane.Lane, now int64) (n int64) {
	r := c.Routes.Load()
	if r == nil || !r.Split {
		return 0
	}
	for _, other := range r.Lanes {
		if other != l {
			n += present(other, now)
		}
	}
	return n
}

// Returned tells that permits came back to a shard.
func (c *Core) Returned() {
	c.callers.Freed(false)
	c.Record().Stir()
}

// HasRoom tells that there is room where a participant believed that there was none for it.
func (c *Core) HasRoom() {
	c.callers.Freed(true)
}

// GiveBack returns permits that nobody uses, and tells how many could not be returned.
func (c *Core) GiveBack(parts []lane.Part) (lost int64) {
	return c.callers.GiveBack(parts)
}

// Failed returns the error of a call to a shard.
func (c *Core) Failed(l *lane.Lane, err error) error {
	return c.Process.Config.Failed(c.Title(), l.Tag(), l.Home, err)
}
