// Package call is the policy of a call for permits: what is asked where, and what becomes of the
// answers.
package call

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// request is a call for permits: its first ask, and the routes in force when it began. It lies on
// the caller's stack.
type request struct {
	lane.Ask
	routes *limit.Routes
	late   bool // it may have waited before its first ask
}

// Decide decides every call that answers at once. since is when it began, 0: now. A call on several
// limits is older than what it asks of one of them.
//
// A Decision is large. On the way of a call that goes well, here and in route.go
// and lease.go, it is filled in place: to copy it from function to function took
// longer than to make it.
func (m *Member) Decide(ctx context.Context, n int64, upTo bool, since int64, d *Decision) error {
	first := request{Ask: lane.Ask{N: n, UpTo: upTo, Since: since}}
	boarded, err := m.begin(ctx, &first, d)
	if boarded {
		first.Sleep()
		err = m.end(ctx, &first, d)
	}
	return err
}

// fromLease does what Decide does, all or nothing, for a member that holds a lease. An ask, which
// the lease most probably makes needless, would be a tenth of the cost.
func (m *Member) fromLease(ctx context.Context, n int64, d *Decision) error {
	since, slept := m.Target.Process.Clock.Look()
	r, _, err := m.Admit(ctx, n, false)
	switch {
	case err != nil:
		return err
	case m.byMode(r, n, false, d):
	case r == nil:
		err = m.unknown(n, false, d)
	case r.Limit.Lease > 0:
		err = m.leased(ctx, r, leaseCall{n, since, slept}, d)
	default:
		err = m.whole(ctx, r, n, since, d)
	}
	return m.decided(ctx, &request{Ask: lane.Ask{N: n, Since: since}}, d, err)
}

// begin does what Decide does up to where the caller sleeps. If boarded is false it is over. Else
// the caller must call Sleep and then end.
func (m *Member) begin(ctx context.Context, first *request, d *Decision) (boarded bool, err error) {
	n := first.N
	if first.Since == 0 {
		first.Since = m.Target.Process.Now()
	}
	r, late, err := m.Admit(ctx, n, first.UpTo)
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
	case r.Limit.Lease > 0:
		err = m.leased(ctx, r, leaseCall{n, first.Since, m.Target.Process.Clock.Suspended()}, d)
	default:
		if boarded, err = m.board(ctx, first, d); boarded {
			return true, nil
		}
	}
	if d.Source != telemetry.Memory || m.Target.Routes.Load() != r { // not even a call for most denials from memory
		err = m.informed(ctx, first, d, err)
	}
	return false, m.decided(ctx, first, d, err)
}

// end does the rest of Decide, after the caller has slept.
func (m *Member) end(ctx context.Context, first *request, d *Decision) error {
	err := m.finish(ctx, first, first.Seat.Lane.Wake(ctx, &first.Ask), d)
	err = m.informed(ctx, first, d, err)
	return m.decided(ctx, first, d, err)
}

// informed goes on with a call that got nothing, where a shard has just told it of another layout:
// what is free may be on shards that this process does not know yet.
func (m *Member) informed(ctx context.Context, first *request, d *Decision, err error) error {
	c, r := m.Target, first.routes
	if err != nil || d.Granted > 0 || d.Degraded || r == nil {
		return err
	}
	newer, record := c.Routes.Load(), c.Record()
	if newer == r && (d.Source == telemetry.Memory || record.Highest() <= r.Layout.Epoch) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx,
		max(0, c.Process.Config.CallTimeout-time.Duration(c.Process.Now()-first.Since)))
	defer cancel()
	if newer == nil || newer.Layout.Epoch <= r.Layout.Epoch {
		_ = record.ConfirmSince(within, 0) // the denial stands
		newer = c.Current()
	}
	if newer == nil || newer.Layout.Epoch <= r.Layout.Epoch {
		return nil // the denial stands
	}
	if newer, _ = c.InUse(within); newer == nil { // a key has nothing where it is now before a step was made
		return nil // it was deleted just now
	}
	*d = Decision{}
	if m.byMode(newer, first.N, first.UpTo, d) {
		return nil
	}
	if first.UpTo {
		return m.some(ctx, newer, first.N, first.Since, false, d)
	}
	if permits := newer.Limit.Most(); first.N > permits {
		return c.TooMany(first.N, permits)
	}
	return m.exactly(ctx, newer, first.N, first.Since, d)
}

// decided tells fairness and telemetry how a call ended, and returns how it does for its caller.
func (m *Member) decided(ctx context.Context, first *request, d *Decision, err error) error {
	if most := min(first.N, d.Limit); err == nil && d.Granted < most && !d.Degraded && d.Mode == limit.Enforced {
		m.Unmet.Add(most - d.Granted) // nobody can want more than there are
	}
	err = m.answered(first.N, first.UpTo, d, err)
	m.Target.decided(ctx, d, first.N, first.Since, err)
	return err
}

// AtOnce decides a call for n permits, all or nothing or up to as many, without telling anybody. by
// is as turnBy has it.
func (m *Member) AtOnce(ctx context.Context, r *limit.Routes, n int64, upTo bool, since, by int64,
	d *Decision) (err error) {
	switch {
	case m.byMode(r, n, upTo, d):
	case r == nil:
		*d, err = m.outage(nil, n, upTo, nil)
	case upTo:
		err = m.some(ctx, r, n, since, r.Limit.Algorithm == limit.LeakyBucket, d)
	default:
		err = m.turnBy(ctx, r, n, since, by, d)
	}
	return m.answered(n, upTo, d, err)
}

// unknown decides on a limit that could not be declared yet.
func (m *Member) unknown(n int64, upTo bool, d *Decision) (err error) {
	*d, err = m.outage(nil, min(n, m.Target.Declaration().Most()), upTo, nil)
	return err
}

// Admit checks a call before anything is sent, and returns the routes to use;
// nil if the limit could not be declared yet. late tells that it may have waited.
func (m *Member) Admit(ctx context.Context, n int64, upTo bool) (r *limit.Routes, late bool, err error) {
	c := m.Target
	if c.Invalid != nil {
		return nil, false, c.Invalid
	}
	if m.invalid != nil {
		return nil, false, m.invalid
	}
	if n < 1 {
		return nil, false, TooFew(n)
	}
	if c.Process.Closed.Load() {
		return nil, false, limit.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, false, clock.Ended(ctx)
	}
	r, late = c.InUse(ctx)
	if r == nil && ctx.Err() != nil {
		return nil, false, clock.Ended(ctx)
	}
	if r == nil && c.Deleted() {
		return nil, false, register.ErrDeleted
	}
	if n > 1 && !upTo {
		if permits := c.LimitOf(r).Most(); n > permits && !c.Mode(r).Lenient() {
			return nil, false, c.TooMany(n, permits)
		}
	}
	return r, late, nil
}

// TooFew returns the error of a call for less than one permit.
func TooFew(n int64) error {
	return fmt.Errorf("%w: %d, ask for at least 1", limit.ErrInvalidPermits, n)
}
