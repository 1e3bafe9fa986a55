package limit

import (
	"fmt"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// Adopt makes the layout the one this process works with, unless it has a newer one.
func (c *Core) Adopt(layout shard.Layout) error {
	p, err := c.planFor(layout)
	if err != nil {
		return fmt.Errorf("%w: %w", register.ErrUnreadable, err)
	}
	return c.adopt(p)
}

// adopt does what Adopt does, with the plan of the layout.
func (c *Core) adopt(p *Plan) error {
	layout := &p.Layout
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Deleted() {
		return register.ErrDeleted // while the layout was on its way
	}
	old := c.Routes.Load()
	if old != nil && (old.Layout.Epoch > layout.Epoch || old.Layout.Epoch == layout.Epoch && old.Layout.Settled) {
		return nil
	}
	r := c.newRoutes(p)
	c.Routes.Store(r)
	if old == nil {
		c.Overruled(c.declared, p.Limit)
	}
	c.Metrics.CountsBy(p.Limit.Algorithm.String())
	if p.fence != nil && c.Register != nil {
		c.Register.ReconsiderSoon() // nodes may be lost, or back, that it does not know of
	}
	if old != nil && old.Layout.Epoch != layout.Epoch {
		c.callers.Adopted(r)
	}
	return nil
}
