package shardlimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is what a limit is to the register of its layout.

// registered gives a core the register of its own record.
func (c *core) registered(family bool) {
	c.register = register.New(c.client.records, register.Subject{
		Limit: c, Name: c.name, ID: c.id, Family: family, Metrics: c.metrics})
}

// join makes the limiter usable, as it is stored or as declared.
func (c *core) join(ctx context.Context, limit Limit) error {
	c.declare(limit)
	if r := c.routes.Load(); r != nil && limit.Revision <= r.limit.Revision {
		return nil
	}
	return c.register.Join(ctx)
}

// Declared is the limit as the code declares it, at the highest revision.
func (c *core) Declared() register.Wanted { return c.declaration().wanted() }

// Layout is the layout of the routes in force, nil if there are none.
func (c *core) Layout() *shard.Layout {
	if r := c.routes.Load(); r != nil {
		return &r.layout
	}
	return nil
}

// Adopt makes the layout the one this process works with, unless it has a newer one.
func (c *core) Adopt(layout shard.Layout) error {
	p, err := c.planFor(layout)
	if err != nil {
		return fmt.Errorf("%w: %w", register.ErrUnreadable, err)
	}
	return c.adopt(p)
}

// adopt is Adopt with the plan of the layout.
func (c *core) adopt(p *plan) error {
	layout := &p.layout
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted() {
		return register.ErrDeleted // while the layout was on its way
	}
	old := c.routes.Load()
	if old != nil && (old.layout.Epoch > layout.Epoch || old.layout.Epoch == layout.Epoch && old.layout.Settled) {
		return nil
	}
	r := c.newRoutes(p)
	c.routes.Store(r)
	if old == nil {
		c.overruled(c.declared, p.limit)
	}
	c.metrics.CountsBy(p.limit.Algorithm.String())
	if p.fence != nil && c.register != nil {
		c.register.ReconsiderSoon() // nodes may be lost, or back, that it does not know of
	}
	if old != nil && old.layout.Epoch != layout.Epoch {
		c.members.open(r) // a raised limit may have room where there was none
		c.ahead.Store(nil)
		c.members.restartWaiters()
		c.members.retire(r)
	}
	return nil
}

// Propose makes an offer to a shard, without asking for permits.
func (c *core) Propose(ctx context.Context, o *register.Offer) (script.TakeReply, error) {
	l := c.laneTo(o.Shard)
	if l == nil || !o.Forced && !l.Reachable() {
		return script.TakeReply{}, node.ErrAway
	}
	proposal, err := c.proposal(o.Layout, o.Shard, o.Floor)
	if err != nil {
		return script.TakeReply{}, err
	}
	return l.Propose(ctx, &lane.Terms{Epoch: o.Layout.Epoch, Window: o.Layout.Span(), Proposal: proposal})
}

// Drop removes the shards of the layout.
func (c *core) Drop(ctx context.Context) error {
	return c.everyShard(ctx, c.client.nodes.Patience(),
		func(ctx context.Context, ln *lane.Lane) error { return ln.Drop(ctx) })
}

// Forget is for a limit that was deleted: there are no routes any more.
func (c *core) Forget() {
	c.mu.Lock()
	c.routes.Store(nil)
	c.mu.Unlock()
	c.client.forget(c)
	c.members.restartWaiters()
}

// FailedAt is the error of a call to a shard, or a place of the record, as callers see it.
func (c *core) FailedAt(at shard.Location, err error) error {
	return &ShardError{Limiter: c.title(), Shard: shard.Tag(at.Slot), Node: at.Node, Err: err}
}

// wanted is the limit as a register knows it.
func (l Limit) wanted() register.Wanted {
	return register.Wanted{
		Spec: shard.Spec{
			Permits: l.Permits, Window: l.Per, Algorithm: l.Algorithm.String(), Burst: l.Burst, Revision: l.Revision,
			Lease: l.Lease,
			Scope: l.Scope.stored(), Mode: l.Mode.stored(), Auto: l.Shards == 0,
		},
		Shards: l.Shards,
	}
}

// limitOf is the limit of a layout. One that no version could have declared is unreadable.
func limitOf(l shard.Layout) (Limit, error) {
	limit, err := limitUnder(l.Spec())
	if limit.Shards = len(l.Live()); err != nil && !errors.Is(err, register.ErrUnreadable) {
		err = fmt.Errorf("%w: %w", register.ErrUnreadable, err)
	}
	return limit, err
}

// limitUnder is the limit of a spec. The error tells why no limit can be so.
func limitUnder(s shard.Spec) (Limit, error) {
	algorithm, err := algorithmNamed(s.Algorithm)
	scope, unknown := scopeNamed(s.Scope)
	mode, newer := modeNamed(s.Mode)
	limit := Limit{Permits: s.Permits, Per: s.Window, Algorithm: algorithm, Burst: s.Burst, Scope: scope,
		Lease: s.Lease, Revision: s.Revision, Mode: mode}
	if err = errors.Join(err, unknown, newer); err != nil {
		return limit, err
	}
	return limit, limit.validate()
}
