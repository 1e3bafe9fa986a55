package shardlimit

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about where the keys of a family are, and what a key that moves is to a register.

// keyInUse is inUse for a key. While the process rested, the key may have moved: it has nothing
// where it is now before a step of its move was made. So the record of the family is confirmed
// then, before anybody looks where the key is. If it cannot be, the call goes on all the same: see
// lane.reassure.
func (c *core) keyInUse(ctx context.Context) (r *routes, late bool) {
	r = c.current()
	if r == nil || r.limit.Scope == PerParticipant || r.limit.Mode.asksNobody() {
		return r, false
	}
	if c.Expired(c.client.clock.Elapsed()) {
		within, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout*3/4) // the rest is for the call itself
		defer cancel()
		_ = c.ConfirmWithin(within)
		ctx, late, r = within, true, c.routes.Load()
	}
	if r == nil || r.layout.Settled {
		return r, late
	}
	return c.follow(ctx), true
}

// mayWait reports whether a call for a key may ask Redis something before it is sent.
func (c *core) mayWait() bool {
	if c.family == nil {
		return false
	}
	r := c.known()
	return r == nil || !r.layout.Settled || c.Expired(c.client.clock.Elapsed())
}

// follow makes a step of a key's move if it is time for one, and returns the routes to use then.
func (c *core) follow(ctx context.Context) *routes {
	m := c.move.Load()
	if m == nil {
		c.move.CompareAndSwap(nil, register.NewMove())
		m = c.move.Load()
	}
	c.record().Follow(ctx, m, c)
	return c.routes.Load()
}

// FreeAt is when a permit comes back to a shard, as last heard; ok is false if its node is gone.
func (c *core) FreeAt(s shard.Shard) (at int64, ok bool) {
	l := c.laneTo(s)
	if l == nil {
		return 0, false
	}
	return l.FreeAt(), true
}

// Update takes over the layout that the family's record gives the key.
func (c *core) Update() { c.family.update(c) }

// Raised tells that there may be room where there was none.
func (c *core) Raised() { c.ahead.Store(nil) }

// Arrived tells that every shard of the layout has its share.
func (c *core) Arrived() { c.members.restartWaiters() }

// Shut has the outage policy answer for a key while it is under the layout of this epoch, because
// of a shard that cannot be asked what is in use. With nil it opens the key.
func (c *core) Shut(epoch int64, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.routes.Load()
	if r == nil || r.layout.Epoch != epoch || r.layout.Settled || (cause != nil) == (r.closed != nil) {
		return
	}
	next := c.newRoutes(r.plan)
	if cause != nil {
		next.lanes, next.order = nil, nil
		next.closed = fmt.Errorf("the key moves to another node: %w", cause)
	}
	c.routes.Store(next)
	c.members.restartWaiters()
}

// Rebalance places the keys of the family over the nodes of this Client that do not drain, and
// moves the family's record if that is on a node that does. Every process follows, whichever nodes
// it lists. If the keys are placed so already, it does nothing. It fails as SetLimit does.
//
// A key that is to be elsewhere moves with the first call for it in each process: at once if it
// was idle for a window, else as what was used leaves the window. See docs/howto/change-nodes.md.
func (f *Family) Rebalance(ctx context.Context) error {
	if f.core.client.closed.Load() {
		return ErrClosed
	}
	return f.core.register.Rebalance(ctx)
}
