package shardlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// call is a call for permits: its first ask, and the routes in force when it began. It lies on the
// caller's stack.
type call struct {
	lane.Ask
	routes *routes
	late   bool // it may have waited before its first ask
}

// decide is every call that answers at once. since is when it began, 0: now. A call on several
// limits is older than what it asks of one of them.
//
// A Decision is large. On the way of a call that goes well, here and in route.go
// and lease.go, it is filled in place: to copy it from function to function took
// longer than to make it.
func (m *member) decide(ctx context.Context, n int64, upTo bool, since int64, d *Decision) error {
	first := call{Ask: lane.Ask{N: n, UpTo: upTo, Since: since}}
	boarded, err := m.begin(ctx, &first, d)
	if boarded {
		first.Sleep()
		err = m.end(ctx, &first, d)
	}
	return err
}

// fromLease is decide, all or nothing, for a member that holds a lease: an ask, which
// the lease most probably makes needless, would be a tenth of the cost.
func (m *member) fromLease(ctx context.Context, n int64, d *Decision) error {
	since, slept := m.core.client.look()
	r, _, err := m.admit(ctx, n, false)
	switch {
	case err != nil:
		return err
	case m.byMode(r, n, false, d):
	case r == nil:
		err = m.unknown(n, false, d)
	case r.limit.Lease > 0:
		err = m.leased(ctx, r, leaseCall{n, since, slept}, d)
	default:
		err = m.whole(ctx, r, n, since, d)
	}
	return m.decided(ctx, &call{Ask: lane.Ask{N: n, Since: since}}, d, err)
}

// begin is decide up to where the caller sleeps. If boarded is false it is over.
// Else the caller must call sleep and then end.
func (m *member) begin(ctx context.Context, first *call, d *Decision) (boarded bool, err error) {
	n := first.N
	if first.Since == 0 {
		first.Since = m.core.client.now()
	}
	r, late, err := m.admit(ctx, n, first.UpTo)
	if err != nil {
		return false, err
	}
	first.routes, first.late = r, late
	switch {
	case m.byMode(r, n, first.UpTo, d):
	case r == nil:
		err = m.unknown(n, first.UpTo, d)
	case first.UpTo:
		err = m.some(ctx, r, n, first.Since, false, d)
	case r.limit.Lease > 0:
		err = m.leased(ctx, r, leaseCall{n, first.Since, m.core.client.suspended()}, d)
	default:
		if boarded, err = m.board(ctx, first, d); boarded {
			return true, nil
		}
	}
	if d.source != telemetry.Memory || m.core.routes.Load() != r { // not even a call for most denials from memory
		err = m.informed(ctx, first, d, err)
	}
	return false, m.decided(ctx, first, d, err)
}

// end is the rest of decide, after the caller has slept.
func (m *member) end(ctx context.Context, first *call, d *Decision) error {
	err := m.settle(ctx, first, first.Seat.Lane.Wake(ctx, &first.Ask), d)
	err = m.informed(ctx, first, d, err)
	return m.decided(ctx, first, d, err)
}

// informed goes on with a call that got nothing, where a shard has just told it of another layout:
// what is free may be on shards that this process does not know yet.
func (m *member) informed(ctx context.Context, first *call, d *Decision, err error) error {
	c, r := m.core, first.routes
	if err != nil || d.Granted > 0 || d.Degraded || r == nil {
		return err
	}
	newer, record := c.routes.Load(), c.record()
	if newer == r && (d.source == telemetry.Memory || record.Highest() <= r.layout.Epoch) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx,
		max(0, c.client.cfg.CallTimeout-time.Duration(c.client.now()-first.Since)))
	defer cancel()
	if newer == nil || newer.layout.Epoch <= r.layout.Epoch {
		_ = record.ConfirmSince(within, 0) // the denial stands
		newer = c.current()
	}
	if newer == nil || newer.layout.Epoch <= r.layout.Epoch {
		return nil // the denial stands
	}
	if newer, _ = c.inUse(within); newer == nil { // a key has nothing where it is now before a step was made
		return nil // it was deleted just now
	}
	*d = Decision{}
	if m.byMode(newer, first.N, first.UpTo, d) {
		return nil
	}
	if first.UpTo {
		return m.some(ctx, newer, first.N, first.Since, false, d)
	}
	if permits := newer.limit.most(); first.N > permits {
		return c.tooMany(first.N, permits)
	}
	return m.exactly(ctx, newer, first.N, first.Since, d)
}

// decided tells fairness and telemetry how a call ended, and returns how it does for its caller.
func (m *member) decided(ctx context.Context, first *call, d *Decision, err error) error {
	if most := min(first.N, d.Limit); err == nil && d.Granted < most && !d.Degraded && d.mode == Enforced {
		m.Unmet.Add(most - d.Granted) // nobody can want more than there are
	}
	err = m.answered(first.N, first.UpTo, d, err)
	m.core.decided(ctx, d, first.N, first.Since, err)
	return err
}

// atOnce decides a call for n permits, all or nothing or up to as many, without telling anybody. by
// is as of turnBy.
func (m *member) atOnce(ctx context.Context, r *routes, n int64, upTo bool, since, by int64, d *Decision) (err error) {
	switch {
	case m.byMode(r, n, upTo, d):
	case r == nil:
		*d, err = m.outage(nil, n, upTo, nil)
	case upTo:
		err = m.some(ctx, r, n, since, r.limit.Algorithm == LeakyBucket, d)
	default:
		err = m.turnBy(ctx, r, n, since, by, d)
	}
	return m.answered(n, upTo, d, err)
}

// unknown decides on a limit that could not be declared yet.
func (m *member) unknown(n int64, upTo bool, d *Decision) (err error) {
	*d, err = m.outage(nil, min(n, m.core.declaration().most()), upTo, nil)
	return err
}

// admit checks a call before anything is sent, and returns the routes to use;
// nil if the limit could not be declared yet. late tells that it may have waited.
func (m *member) admit(ctx context.Context, n int64, upTo bool) (r *routes, late bool, err error) {
	c := m.core
	if c.invalid != nil {
		return nil, false, c.invalid
	}
	if m.invalid != nil {
		return nil, false, m.invalid
	}
	if n < 1 {
		return nil, false, tooFew(n)
	}
	if c.client.closed.Load() {
		return nil, false, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, false, clock.Ended(ctx)
	}
	r, late = c.inUse(ctx)
	if r == nil && ctx.Err() != nil {
		return nil, false, clock.Ended(ctx)
	}
	if r == nil && c.deleted() {
		return nil, false, register.ErrDeleted
	}
	if n > 1 && !upTo {
		if permits := c.limitOf(r).most(); n > permits && !c.mode(r).lenient() {
			return nil, false, c.tooMany(n, permits)
		}
	}
	return r, late, nil
}

func tooFew(n int64) error {
	return fmt.Errorf("%w: %d, ask for at least 1", ErrInvalidPermits, n)
}

// tooMany refuses a call that wants more than the limit has, as far as this process has heard. That
// it was raised must not stay unheard because of it: no script call tells of it then.
func (c *core) tooMany(n, permits int64) error {
	c.Refresh()
	return fmt.Errorf("%w: %d asked for, limiter %q has %d", ErrExceedsLimit, n, c.title(), permits)
}

// current are the routes in force, nil if the limit could not be declared yet or was deleted.
func (c *core) current() *routes {
	r := c.known()
	if r == nil && c.family != nil {
		c.family.core.current()
	} else if r == nil && !c.deleted() {
		c.register.Soon()
	}
	return r
}

// known are the routes in force, as current, but has nothing looked up.
func (c *core) known() *routes {
	if c.family != nil {
		c.family.update(c)
	}
	return c.routes.Load()
}

// limitNow is the limit in force, as far as this process has heard.
func (c *core) limitNow() Limit { return c.limitOf(c.known()) }
