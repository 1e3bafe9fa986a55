package shardlimit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/register"
)

// Delete removes the limit and its usage from Redis, as it is stored now. Delete what nothing uses
// any more. A limit that is not stored is deleted already: the result is nil, and nothing is
// declared.
//
// Handles of this Client are of no use any more: what is called on them, and who waits, gets
// ErrNotFound. Client.Limiter declares the limit anew.
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

// deleted reports whether this process has deleted the limit.
func (c *core) deleted() bool { return c.register != nil && c.register.Deleted() }

// inUse is current for a call that wants permits. late tells that it may have waited.
func (c *core) inUse(ctx context.Context) (r *routes, late bool) {
	if c.family != nil {
		return c.keyInUse(ctx)
	}
	return c.current(), false
}

// stored are the routes for what looks at a limit or changes what is stored, and does not want
// permits. The error tells of Redis, or that the limit was deleted.
func (c *core) stored() (*routes, error) {
	r := c.current()
	switch {
	case r != nil:
		return r, nil
	case c.deleted():
		return nil, register.ErrDeleted
	}
	return nil, register.Unavailable(c.record().Absence())
}
