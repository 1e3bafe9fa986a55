package limit

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/register"
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
	m.Follow(ctx, c.Record(), c)
	return c.Routes.Load()
}

// Moved takes in what came of a step of a key's move.
func (c *Core) Moved(s register.Step) {
	if s.Layout.Settled && c.Adopt(s.Layout) == nil {
		c.callers.Freed(true)
		return
	}
	if s.Raised {
		c.callers.Freed(false)
	}
	if s.Known {
		c.shut(s.Layout.Epoch, s.Stuck)
	}
}

// shut has the outage policy answer for a key while it is under the layout of this epoch, because
// of a shard that cannot be asked what is in use. With nil it opens the key.
func (c *Core) shut(epoch int64, cause error) {
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
