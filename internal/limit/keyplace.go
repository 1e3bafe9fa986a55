package limit

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about where the keys of a family are, and what a key that moves is to a register.

// keyInUse does what InUse does, for a key. While the process rested, the key may have moved: it
// has nothing where it is now before a step of its move was made. So the record of the family is
// confirmed then, before anybody looks where the key is. If it cannot be, the call goes on all the
// same: see reassure in package lane.
func (c *Core) keyInUse(ctx context.Context) (r *Routes, late bool) {
	r = c.Current()
	if r == nil || r.Limit.Scope == PerParticipant || r.Limit.Mode.AsksNobody() {
		return r, false
	}
	if c.Record().Expired(c.Process.Clock.Elapsed()) {
		within, cancel := context.WithTimeout(ctx, c.Process.Config.CallTimeout*3/4) // the rest is for the call itself
		defer cancel()
		half, done := context.WithTimeout(within, c.Process.Config.CallTimeout/2)
		_ = c.Confirm(half, 0)
		done()
		ctx, late, r = within, true, c.Routes.Load()
	}
	if r == nil || r.Layout.Settled {
		return r, late
	}
	return c.follow(ctx), true
}

// MayWait reports whether a call for a key may ask Redis something before it is sent.
func (c *Core) MayWait() bool {
	if c.Family == nil {
		return false
	}
	r := c.Known()
	return r == nil || !r.Layout.Settled || c.Record().Expired(c.Process.Clock.Elapsed())
}

// follow makes a step of a key's move if it is time for one, and returns the routes to use then.
func (c *Core) follow(ctx context.Context) *Routes {
	m := c.move.Load()
	if m == nil {
		c.move.CompareAndSwap(nil, register.NewMove())
		m = c.move.Load()
	}
	c.Record().Follow(ctx, m, moving{c})
	return c.Routes.Load()
}

// moving is a key whose shard moves, as the register of its family knows it.
type moving struct{ *Core }

// FreeAt returns when a permit comes back to a shard, as last heard; ok is false if its node is
// gone.
func (c moving) FreeAt(s shard.Shard) (at int64, ok bool) {
	l := c.LaneTo(s)
	if l == nil {
		return 0, false
	}
	return l.Known.FreeAt.Load(), true
}

// Update takes over the layout that the family's record gives the key.
func (c moving) Update() { c.Family.update(c.Core) }

// Raised tells that there may be room where there was none.
func (c moving) Raised() { c.callers.Freed(false) }

// Arrived tells that every shard of the layout has its share.
func (c moving) Arrived() { c.callers.Freed(true) }

// Shut has the outage policy answer for a key while it is under the layout of this epoch, because
// of a shard that cannot be asked what is in use. With nil it opens the key.
func (c moving) Shut(epoch int64, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.Routes.Load()
	if r == nil || r.Layout.Epoch != epoch || r.Layout.Settled || (cause != nil) == (r.closed != nil) {
		return
	}
	next := c.newRoutes(r.Plan)
	if cause != nil {
		next.Lanes, next.Order = nil, nil
		next.closed = fmt.Errorf("the key moves to another node: %w", cause)
	}
	c.Routes.Store(next)
	c.callers.Freed(true)
}
