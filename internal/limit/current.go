package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
)

// Current returns the routes in force, nil if the limit could not be declared yet or was deleted.
func (c *Core) Current() *Routes {
	r := c.Known()
	if r == nil && c.Family != nil {
		c.Family.Of.Current()
	} else if r == nil && !c.Record().Deleted() {
		c.Register.Soon()
	}
	return r
}

// Known returns the routes in force, as Current does, but has nothing looked up.
func (c *Core) Known() *Routes {
	if c.Family != nil {
		c.Family.update(c)
	}
	return c.Routes.Load()
}

// InUse returns the routes in force for a call that wants permits. late tells that it may have
// waited. While the process rested, a key may have moved: it has nothing where it is now before a
// step of its move was made. So the record of the family is confirmed then, before anybody looks
// where the key is. If it cannot be, the call goes on all the same: see reassure in package
// dispatch.
func (c *Core) InUse(ctx context.Context) (r *Routes, late bool) {
	if r = c.Current(); !c.Asks(r) {
		return r, false
	}
	if c.Record().Expired(c.Process.Clock.Elapsed()) {
		within, cancel := context.WithTimeout(ctx, c.Process.Config.CallTimeout*3/4) // the rest is for the call itself
		defer cancel()
		_ = c.Record().ConfirmWithin(within)
		ctx, late, r = within, true, c.Current()
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

// Asks reports whether InUse, with these routes, asks Redis something first: it may wait for that.
func (c *Core) Asks(r *Routes) bool {
	return c.Family != nil && r != nil && r.Limit.Scope != PerParticipant && !r.Limit.Mode.AsksNobody() &&
		(!r.Layout.Settled || c.Record().Expired(c.Process.Clock.Elapsed()))
}

// LimitNow returns the limit in force, as far as this process has heard.
func (c *Core) LimitNow() Limit { return *c.LimitOf(c.Known()) }

// LimitOf returns the limit of the routes, or the one declared while there are none.
func (c *Core) LimitOf(r *Routes) *Limit {
	if r != nil {
		return &r.Limit
	}
	declared := c.Declaration()
	return &declared
}

// Stored returns the routes for what looks at a limit or changes what is stored, and does not want
// permits. The error tells of Redis, or that the limit was deleted.
func (c *Core) Stored() (*Routes, error) {
	r := c.Current()
	switch {
	case r != nil:
		return r, nil
	case c.Record().Deleted():
		return nil, register.ErrDeleted
	}
	return nil, c.Process.Plainly(register.Unavailable(c.Record().Absence()))
}

// TooMany refuses a call that wants more than the limit has, as far as this process has heard. That
// it was raised must not stay unheard because of it: no script call tells of it then.
func (c *Core) TooMany(n, permits int64) error {
	c.Refresh()
	return fmt.Errorf("%w: %d asked for, limiter %q has %d", ErrExceedsLimit, n, c.Title(), permits)
}

// OwnPart returns what this process may admit: the limit divided by the participants last heard of,
// or by those that are expected if these are more, at least one permit.
func (of *Subject) OwnPart(limit Limit) Limit {
	return limit.DividedBy(max(of.Record().Participants.Load(), of.Process.Config.Participants))
}

// EveryShard runs an operation on all shards of the layout at once, for at most the given time.
func (c *Core) EveryShard(ctx context.Context, most time.Duration,
	op func(context.Context, *dispatch.Shard) error) error {
	if c.Invalid != nil {
		return c.Invalid
	}
	if err := c.Process.Gone(ctx, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r, err := c.Stored()
	if err != nil {
		return err
	}
	errs := make([]error, len(r.Layout.Shards))
	var wg sync.WaitGroup
	for i, s := range r.Layout.Shards {
		sh := c.ShardAt(s.Site())
		wg.Go(func() {
			err := node.ErrStranger
			if _, unknown := AlgorithmNamed(s.Algorithm); unknown != nil {
				err = unknown // this version does not know its keys
			} else if sh != nil {
				err = op(ctx, sh)
			}
			if err != nil {
				errs[i] = c.FailedAt(s.Site().Location, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
