package shardlimit

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

// wayTo is where a lane leads.
func (c *core) wayTo(s shard.Shard) *lane.Way {
	w := &lane.Way{
		Metrics: c.metrics, Slot: s.Slot, Home: s.Node, Algorithm: s.Algorithm, Life: s.Life, Keyed: c.family != nil,
	}
	if a, err := algorithmNamed(s.Algorithm); err == nil { // else no call gets as far as to need the keys
		w.Space = a.inScripts().Space(c.client.cfg.KeyPrefix, shard.Tag(s.Slot), s.Life)
		w.Bursty, w.Paced = a.bursty(), a == LeakyBucket
	}
	return w
}

// noTerms are those of a shard that this process has no layout for: calls find what is there and
// create nothing.
func noTerms(algorithm string) *lane.Terms {
	a, _ := algorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: a.inScripts()}.Proposal() // of epoch 0, which is always valid
	return &lane.Terms{Shards: 1, Proposal: p}
}

// Refresh has the limit's record read again in good time.
func (c *core) Refresh() {
	c.record().Refresh()
	if r := c.routes.Load(); r != nil && r.fence != nil {
		r.fence.Refresh()
	}
}

// KnownFor is how long the limit is known to have existed.
func (c *core) KnownFor() time.Duration { return c.record().Age() }

// Confirmed is until when a layout of this epoch may be relied on, 0 if it may not.
func (c *core) Confirmed(epoch int64, elapsed clock.Elapsed) clock.Elapsed {
	return c.record().Believed(epoch, elapsed)
}

// Expired tells that a layout was confirmed, and that it was too long ago.
func (c *core) Expired(elapsed clock.Elapsed) bool { return c.record().Expired(elapsed) }

// ConfirmSince makes sure that the layout of this process may be relied on, at most until ctx ends,
// since a read that began at that time elapsed or later.
func (c *core) ConfirmSince(ctx context.Context, since clock.Elapsed) error {
	return c.follows(c.record().ConfirmSince(ctx, since))
}

// ConfirmWithin is that for any read, and for at most half of a call. If the record did not answer
// in that time, it fails at once for a while.
func (c *core) ConfirmWithin(ctx context.Context) error {
	return c.follows(c.record().ConfirmWithin(ctx))
}

// follows has a key take over what follows from its family's record once that was confirmed: the
// layout may have become another one.
func (c *core) follows(err error) error {
	if err == nil {
		c.current()
	}
	return err
}

// Heard compares what a shard said with what the process believed.
func (c *core) Heard(l *lane.Lane, n lane.News) {
	if n.Status == script.Lost || n.Status == script.Fresh && c.family == nil && n.Operation != telemetry.Propose {
		// Whatever the shard knew of a layout may be lost, and the record with it. Whoever declares
		// the limit next must find ours there: now, and not when this process happens to read it
		// again.
		c.record().Soon()
	}
	if n.Status == script.Lost {
		c.client.cfg.Logger.Warn("shard had lost its memory", "limiter", c.title(), "shard", l.Tag(), "node", l.Home)
	}
	if r := c.routes.Load(); n.Epoch > n.Believed && r != nil && n.Epoch > r.layout.Epoch {
		c.record().Behind(n.Epoch)
	}
}

// Elsewhere is what is free now on the other shards of the limit, as far as this process knows.
func (c *core) Elsewhere(l *lane.Lane, now int64) (n int64) {
	r := c.routes.Load()
	if r == nil || !r.split {
		return 0
	}
	for _, other := range r.lanes {
		if other != l {
			n += present(other, now)
		}
	}
	return n
}

// Returned tells that permits came back to a shard.
func (c *core) Returned() {
	c.ahead.Store(nil)
	c.record().Stir()
}

// HasRoom tells that there is room where a participant believed that there was none for it.
func (c *core) HasRoom() {
	c.ahead.Store(nil)
	c.members.restartWaiters()
}

// GiveBack returns permits that nobody uses, and tells how many could not be returned.
func (c *core) GiveBack(parts []lane.Part) (lost int64) {
	var d Decision
	d.addParts(parts, 0)
	lost = c.giveBack(d, false)
	c.members.wake() // somebody may have been refused meanwhile
	return lost
}

// Failed is the error of a call to a shard.
func (c *core) Failed(l *lane.Lane, err error) error {
	return &ShardError{Limiter: c.title(), Shard: l.Tag(), Node: l.Home, Err: err}
}
