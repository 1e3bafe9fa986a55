package shardlimit

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/register"
)

// Delete removes the limit and its usage from Redis, as it is stored now. Delete what nothing uses
// any more. A limit that is not stored is deleted already: the result is nil, and nothing is
// declared.
//
// Handles of this Client stay usable. The next call for permits, or SetLimit, declares the limit
// anew, as the code declared it, and waits for that like for any answer: at most
// Config.CallTimeout, and only if Redis does not answer in that time the outage policy decides.
// Peek, Participants, Reset and Rebalance declare nothing: they return ErrNotFound until somebody
// has declared the limit again.
//
// Another process that uses the limit is not told. It goes on with the layout it knows as after a
// loss of memory, see Config.AfterLoss: a shard that it used lately is shut for as long as that
// says. With windows above a minute the permits that it was granted before then count again, as do
// those of other processes but this one. It stores its layout again when it next reads the record:
// within 15 seconds of use. Permits that were on their way to a call during Delete count as used
// after it. Reset forgets usage at once.
//
// The error is a *ShardError for each place that could not be reached. What is left there expires
// by itself unless a process uses it. With ErrUnavailable no place could be reached, and nothing
// has changed.
func (l *Limiter) Delete(ctx context.Context) error {
	if err := l.standsAlone("Delete"); err != nil {
		return err
	}
	return l.core.register.Delete(ctx)
}

// inUse is current for a call that wants permits. It declares a limit anew that was deleted, and
// waits for that. late tells that it may have waited.
func (c *core) inUse(ctx context.Context) (r *routes, late bool) {
	if c.family != nil {
		return c.keyInUse(ctx)
	}
	if r = c.routes.Load(); r != nil {
		return r, false
	}
	return c.broughtIntoUse(ctx), true
}

// broughtIntoUse is inUse for a limit that has no routes.
func (c *core) broughtIntoUse(ctx context.Context) *routes {
	r := c.current()
	if r != nil {
		return r
	}
	if !c.register.Vacant() {
		return c.routes.Load() // it may have been declared just now
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout)
	defer cancel()
	for c.register.Vacant() && c.register.Revive(ctx) == nil {
		if r = c.routes.Load(); r != nil { // else it was deleted again
			return r
		}
	}
	return c.routes.Load()
}

// stored are the routes for what looks at a limit or changes what is stored, and does not want
// permits. The error is register.ErrDeleted after Delete, unless another process has declared the
// limit again; else it tells of Redis.
func (c *core) stored(ctx context.Context) (*routes, error) {
	r := c.current()
	if r == nil && c.family == nil && c.register.Deleted() {
		ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout)
		defer cancel()
		if err := c.register.Rejoin(ctx); err != nil {
			return nil, unreached(err)
		}
		r = c.routes.Load()
	}
	if r == nil {
		return nil, register.Unavailable(c.record().Absence())
	}
	return r, nil
}

// unreached is ErrUnavailable for what could not be learned of a deleted limit, unless it tells
// more.
func unreached(err error) error {
	if errors.Is(err, register.ErrDeleted) || errors.Is(err, ErrClosed) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return register.Unavailable(err)
}
