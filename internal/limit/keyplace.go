package limit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/register"
)

// This file is about where the keys of a family are.

// InUse returns the routes in force for a call that wants permits. late tells that it may have
// waited. While the process rested, a key may have moved: it has nothing where it is now before a
// step of its move was made. So the record of the family is confirmed then, before anybody looks
// where the key is. If it cannot be, the call goes on all the same: see reassure in package
// dispatch.
func (c *Core) InUse(ctx context.Context) (r *Routes, late bool) {
	r = c.Current()
	if c.Family == nil || r == nil || r.Limit.Scope == PerParticipant || r.Limit.Mode.AsksNobody() {
		return r, false
	}
	if c.Record().Expired(c.Process.Clock.Elapsed()) {
		within, cancel := context.WithTimeout(ctx, c.Process.Config.CallTimeout*3/4) // the rest is for the call itself
		defer cancel()
		half, done := context.WithTimeout(within, c.Process.Config.CallTimeout/2)
		_ = listener{c}.Confirm(half, 0)
		done()
		ctx, late, r = within, true, c.Routes.Load()
	}
	if r == nil || r.Layout.Settled {
		return r, late
	}
	if c.move.Load() == nil {
		c.move.CompareAndSwap(nil, register.NewMove())
	}
	c.move.Load().Follow(ctx, c.Record(), recorded{c})
	return c.Routes.Load(), true
}

// MayWait reports whether a call for a key may ask Redis something before it is sent.
func (c *Core) MayWait() bool {
	if c.Family == nil {
		return false
	}
	r := c.Known()
	return r == nil || !r.Layout.Settled || c.Record().Expired(c.Process.Clock.Elapsed())
}
