// Package call is the policy of a call for permits: what is asked where, and what becomes of the
// answers.
package call

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// call is what a call for permits wants.
type call struct {
	n     int64 // permits
	upTo  bool  // as many as there are, up to n; else all or nothing
	since int64 // when it began, on the client's clock
	slept int64 // for how long the machine had been suspended by then, or later
	by    int64 // see turnBy
	turns bool  // see some
	// asked is that a key was asked for before, alone, and failure why it did not answer; nil: that
	// is not so, or it is to be asked otherwise.
	asked   bool
	failure error
}

// Decide decides every call that answers at once. since is when it began, 0: now. A call on several
// limits is older than what it asks of one of them.
//
// A Decision is large. On the way of a call that goes well, here and in route.go
// and lease.go, it is filled in place: to copy it from function to function took
// longer than to make it.
func (m *Member) Decide(ctx context.Context, n int64, upTo bool, since int64, d *Decision) error {
	return m.decide(ctx, call{n: n, upTo: upTo, since: since}, d)
}

func (m *Member) decide(ctx context.Context, q call, d *Decision) error {
	n, upTo, hints := q.n, q.upTo, q.since == 0 || q.asked
	if q.since == 0 {
		q.since, q.slept = m.Target.Process.Clock.Look()
	} else {
		q.slept = m.Target.Process.Clock.Suspended()
	}
	var r *limit.Routes
	var late bool
	var err error
	if q.failure == nil {
		r, late, err = m.Admit(ctx, n, upTo)
	} else if err = m.Target.Process.Gone(ctx, nil); err == nil { // its time may be up
		r = m.Target.Current()
	}
	switch {
	case err != nil:
		if q.asked {
			m.Target.decided(ctx, d, n, q.since, err)
		}
		return err
	case r != nil && q.failure != nil && len(r.Shards) == 1 && r.Limit.Mode == limit.Enforced:
		v := m.View(r)
		err = v.finish(ctx, &dispatch.Ask{N: n, Since: q.since, Account: v.accounts[0]}, q.failure, d)
	case r == nil || q.asked || r.Limit.Mode != limit.Enforced || upTo || late || r.Limit.Lease > 0 ||
		r.Limit.Scope == limit.PerParticipant:
		err = m.serve(ctx, r, q, d)
	default:
		var picked, joined bool
		v := m.View(r)
		first := dispatch.Ask{N: n, Since: q.since}
		if picked, err = v.pickFirst(ctx, &first, d); !picked {
			break
		}
		if joined, err = first.Join(ctx); joined {
			first.Sleep()
			err = first.Wake(ctx)
		}
		err = v.finish(ctx, &first, err, d)
	}
	if d.Granted == 0 && err == nil && (d.Source != telemetry.Memory || m.Target.Routes.Load() != r) {
		err = m.informed(ctx, r, q, d)
	}
	if most := min(n, d.Limit); err == nil && d.Granted < most && !d.Degraded && d.Mode == limit.Enforced {
		m.Unmet.Add(most - d.Granted) // nobody can want more than there are
	}
	err = m.answered(n, upTo, d, err)
	if hints { // else a Set may wait
		d.Hint(false)
	}
	m.Target.decided(ctx, d, n, q.since, err)
	return err
}

// serve decides a call, without telling anybody.
func (m *Member) serve(ctx context.Context, r *limit.Routes, q call, d *Decision) (err error) {
	switch of := m.Target.LimitOf(r); {
	case byMode(m.Target, r, q.n, q.upTo, d):
	case of.Scope == limit.PerParticipant:
		decidePerParticipant(m, of, q.n, q.upTo, d)
	case r == nil: // it could not be declared yet
		*d, err = m.outage(nil, min(q.n, of.Most()), q.upTo, nil)
	case r.Limit.Lease > 0:
		err = m.Leases.serve(ctx, r, q, d)
	case q.upTo:
		err = m.View(r).some(ctx, q, d)
	default:
		err = m.View(r).whole(ctx, q, d)
	}
	return err
}

// informed goes on with a call that was denied, where a shard has just told it of another layout:
// what is free may be on shards that this process does not know yet.
func (m *Member) informed(ctx context.Context, r *limit.Routes, q call, d *Decision) error {
	if d.Degraded || r == nil {
		return nil
	}
	newer, err := m.Target.later(ctx, r, q)
	if newer == nil {
		return err
	}
	*d = Decision{}
	if err != nil {
		return err
	}
	q.slept = m.Target.Process.Clock.Suspended()
	return m.serve(ctx, newer, q, d)
}

// later returns the routes with which a denied call goes on, if a shard has told of another layout;
// nil if the denial stands. It is an error if the limit is now less than the call wants.
func (c *Target) later(ctx context.Context, r *limit.Routes, q call) (newer *limit.Routes, err error) {
	record := c.Record()
	newer = c.Routes.Load()
	if newer == r && record.Highest.Load() <= r.Layout.Epoch {
		return nil, nil
	}
	within, cancel := context.WithTimeout(ctx,
		max(0, c.Process.Config.CallTimeout-time.Duration(c.Process.Now()-q.since)))
	defer cancel()
	if newer == nil || newer.Layout.Epoch <= r.Layout.Epoch {
		_ = record.ConfirmSince(within, 0) // the denial stands
	}
	newer, _ = c.InUse(within) // a key has nothing where it is now before a step was made
	if newer == nil || newer.Layout.Epoch <= r.Layout.Epoch {
		return nil, nil // also if it was deleted just now
	}
	if permits := newer.Limit.Most(); newer.Limit.Mode == limit.Enforced && q.n > permits && !q.upTo {
		err = c.TooMany(q.n, permits)
	}
	return newer, err
}

// AtOnce decides a call for n permits, all or nothing or up to as many, without telling anybody. by
// is as in turnBy.
func (m *Member) AtOnce(ctx context.Context, r *limit.Routes, n int64, upTo bool, since, by int64,
	d *Decision) error {
	slept := m.Target.Process.Clock.Suspended()
	q := call{n: n, upTo: upTo, since: since, slept: slept, by: turnBy(r, since, by)}
	q.turns = r != nil && r.Limit.Algorithm == limit.LeakyBucket
	err := m.answered(n, upTo, d, m.serve(ctx, r, q, d))
	d.asked = clock.Elapsed(since + slept)
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
	if n < 1 || n > limit.MaxPermits {
		return nil, false, fmt.Errorf("%w: %d, that must be 1 to %d", limit.ErrInvalidPermits, n,
			int64(limit.MaxPermits))
	}
	if c.Process.Closed.Load() {
		return nil, false, limit.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, false, clock.Ended(ctx)
	}
	r, late = c.InUse(ctx)
	if r == nil && ctx.Err() != nil {
		return nil, false, clock.Ended(ctx)
	}
	if r == nil && c.Record().Deleted() {
		return nil, false, register.ErrDeleted
	}
	if n > 1 && !upTo {
		if permits := c.LimitOf(r).Most(); n > permits && !c.LimitOf(r).Mode.Lenient() {
			return nil, false, c.TooMany(n, permits)
		}
	}
	return r, late, nil
}
