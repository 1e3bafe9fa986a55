package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
)

// Reservation is permits that may be used from a known instant on. They are
// counted in every window that holds that instant, so use them when it comes:
// who waits longer uses them beside permits that have become free meanwhile.
// A Reservation is safe for concurrent use.
type Reservation struct {
	decision Decision
	due      int64 // on the client's clock
	n        int64
}

// Delay is how long to wait from now on before the permits may be used; 0 if they may be used
// already.
func (r *Reservation) Delay() time.Duration {
	return time.Duration(max(0, r.due-r.decision.core.client.now()))
}

// At is when the permits may be used, on this process' clock.
func (r *Reservation) At() time.Time { return r.decision.core.client.time(r.due) }

// Permits is how many permits were reserved.
func (r *Reservation) Permits() int64 { return r.n }

// Degraded means that the outage policy answered, not Redis.
func (r *Reservation) Degraded() bool { return r.decision.Degraded }

// Shadowed means that the limit is in Shadow mode, and that Enforced would have had the permits
// later or not at all.
func (r *Reservation) Shadowed() bool { return r.decision.Shadowed }

// Cancel gives the permits back, so that others can have them; what others have
// reserved does not move. It works once, and until the permits are due: later they
// count as used, and nothing happens. While participants contend, it has cost its credit all the
// same. The error is a *ShardError for each shard that could not be reached;
// Cancel may then be called again.
func (r *Reservation) Cancel(ctx context.Context) error {
	c := r.decision.core.hold()
	defer c.release()
	switch {
	case c.client.closed.Load():
		return ErrClosed
	case c.client.now() >= r.due:
		return nil
	}
	if err := c.settle(ctx, &r.decision, 0, true); !errors.Is(err, ErrSettled) {
		return err
	}
	return nil
}

// Reserve gets n permits, all of them, now or at the earliest instant at which there is room for
// them, at most one window ahead. Delay tells how long to wait before using them, and Cancel gives
// them back.
//
// A shard keeps its reservations in the order of their dates. So later ones, by any process, come
// behind this one, and calls for permits at once do not move it: they get what stays free beside
// all that is reserved. So callers that want less do not starve a large reservation.
//
// The error is a *TooFarAheadError, which is an ErrTooFarAhead, if the permits come later than in a
// window, and ErrWaitTooLong if that is after the deadline of ctx. Other errors are those of
// AllowN. While no shard answers, OnOutage decides: FailLocal reserves within this process' part of
// the limit, FailOpen gives permits for at once.
//
// Every algorithm can reserve, and its bound holds for permits that are used when they are due. A
// FixedWindow has room in the next window. Under LeakyBucket every grant is a turn in a queue, so
// Reserve gets the turn that AllowN would get with its Delay; Cancel works only for the newest
// turns, because others would leave holes. While participants contend, one that has had its part
// cannot reserve before its credit has paid for that: the error is an ErrTooFarAhead.
//
// Reset forgets what was reserved, though its holder may rely on it. After SetLimit has lowered
// the limit, earlier reservations are still admitted, and a bucket grants nothing else until they
// were. A node that loses its memory forgets what was reserved there.
func (l *Limiter) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	m := l.hold()
	defer m.core.release()
	return m.reserve(ctx, n)
}

func (m *member) reserve(ctx context.Context, n int64) (*Reservation, error) {
	c := m.core
	start := c.client.now()
	r, _, err := m.admit(ctx, n, false)
	if err != nil {
		return nil, err
	}
	made, err := m.obtain(ctx, r, n, start)
	switch {
	case err == nil:
		c.decided(ctx, &made.decision, n, start, nil)
	case isRefusal(err):
		c.decided(ctx, &Decision{}, n, start, nil)
	default:
		c.decided(ctx, &Decision{}, n, start, err)
	}
	return made, err
}

// limitOf is the limit of the routes, or the one declared while there are none.
func (c *core) limitOf(r *routes) Limit {
	if r == nil {
		return c.declaration()
	}
	return r.limit
}

// obtain gets n permits now, or reserves them.
func (m *member) obtain(ctx context.Context, r *routes, n, start int64) (*Reservation, error) {
	c := m.core
	var d Decision
	deadline := c.deadline(ctx)
	if err := m.atOnce(ctx, r, n, false, start, deadline, &d); err != nil {
		return nil, err
	}
	if d.mode == Closed {
		return nil, fmt.Errorf("%w: limiter %q", ErrLimitClosed, c.title())
	}
	if d.Allowed {
		return c.turn(d, n, deadline)
	}
	var err error
	made := &Reservation{decision: d, n: n}
	if d.engine == nil {
		made.decision, made.due, err = m.book(ctx, r, bookCall{n: n, deadline: deadline, since: start})
		var away *awayError
		if !errors.As(err, &away) {
			return made.unless(err)
		}
		if made.decision, err = m.outage(r, n, false, away.cause); err != nil {
			return nil, err
		}
		if made.decision.Allowed {
			return c.turn(made.decision, n, deadline)
		}
	}
	g, due, in := made.decision.engine.Book(n, deadline)
	if g.Granted == 0 {
		return nil, late(in, deadline, c.client.now())
	}
	made.due, made.decision.Allowed, made.decision.Granted, made.decision.RetryAfter = due, true, n, 0
	made.decision.until, made.decision.first = g.Until, lane.Part{At: g.At, N: n}
	return made, nil
}

// turn is the reservation that a grant is, due at once or, under LeakyBucket, when it may act.
func (c *core) turn(d Decision, n, deadline int64) (*Reservation, error) {
	now := c.client.now()
	due := now + int64(d.Delay)
	if d.Delay > 0 && deadline != 0 && due > deadline {
		c.handBack(c.client.ctx, d, now)
		return nil, fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, d.Delay)
	}
	return &Reservation{decision: d, due: due, n: n}, nil
}

// unless is the reservation, or none with an error.
func (r *Reservation) unless(err error) (*Reservation, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
