package shardlimit

import (
	"context"
	"fmt"
)

// decide is every call that answers at once.
func (c *core) decide(ctx context.Context, n int64, upTo bool) (Decision, error) {
	start := c.client.now()
	t, err := c.admit(ctx, n, upTo)
	if err != nil {
		return Decision{}, err
	}
	var d Decision
	switch {
	case t == nil:
		d, err = c.outage(nil, min(n, c.declaration().Permits), upTo, errNoRecord)
	case upTo:
		d, err = c.some(ctx, t, n, start)
	default:
		d, err = c.exactly(ctx, t, n, start)
	}
	c.client.tel.decided(ctx, c, &d, n, start, err)
	return d, err
}

// admit checks a call before anything is sent, and returns the table to use;
// nil if the limit could not be declared yet.
func (c *core) admit(ctx context.Context, n int64, upTo bool) (*table, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	if n < 1 {
		return nil, fmt.Errorf("%w: %d, ask for at least 1", ErrInvalidPermits, n)
	}
	if c.client.closed.Load() {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	t := c.current()
	if n == 1 || upTo {
		return t, nil
	}
	permits := c.permits(t)
	if n > permits {
		return nil, fmt.Errorf("%w: %d asked for, limiter %q has %d", ErrExceedsLimit, n, c.name, permits)
	}
	return t, nil
}

// permits is how many the limit has.
func (c *core) permits(t *table) int64 {
	if t == nil {
		return c.declaration().Permits
	}
	return t.limit.Permits
}

// current is the table in force, nil if the limit could not be declared yet.
func (c *core) current() *table {
	if c.family != nil {
		c.family.update(c)
	} else if c.table.Load() == nil {
		c.register.syncSoon()
	}
	return c.table.Load()
}
