package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
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

// Cancel gives the permits back, so that others can have them; what others have
// reserved does not move. It works once, and until the permits are due: later they
// count as used, and nothing happens. While participants contend, what the reservation kept from
// others until then is paid for. The error is a *ShardError for each
// shard that could not be reached; Cancel may then be called again.
func (r *Reservation) Cancel(ctx context.Context) error {
	c := r.decision.core
	switch {
	case c.client.closed.Load():
		return ErrClosed
	case c.client.now() >= r.due:
		return nil
	}
	if err := c.refund(ctx, r.decision, r.due); err != nil {
		return err
	}
	c.rare().reserved.Remove(r)
	return nil
}

// Reserve gets n permits, all of them, now or at the earliest instant at which there is room for
// them. Delay tells how long to wait before using them, and Cancel gives them back.
//
// Later reservations, by any process, come behind this one, and calls for permits at once do not
// move it. So callers that want less do not starve a large reservation. Under algorithms other than
// SlidingLog and FixedWindow, it may hold up permits that small calls could have had meanwhile.
//
// A process may have one reservation of any size outstanding, or several that are together no more
// than the limit divided by the number of processes that use it. On each shard at most its share is
// reserved ahead. ErrTooManyReservations means that this, or a shard, has no room for more: a shard
// of a TokenBucket has room for 64 bookings, of a SlidingCounter for 24, of a FixedWindow for the
// next seven windows. ErrWaitTooLong means that the permits cannot come before the deadline of ctx.
// Other errors are those of AllowN.
//
// While participants contend, a reservation is charged to this one like any grant. If its part of
// the limit is used up for more than a quarter of a window, the error is ErrTooManyReservations,
// too. While no shard answers, OnOutage decides: FailLocal reserves within this process' part of
// the limit, FailOpen gives permits for at once.
//
// Every algorithm can reserve, and its bound holds for permits that are used when they are due.
// Under LeakyBucket every grant is a turn in a queue of Burst, so Reserve gets the turns that
// AllowN would, with their Delay. While the queue has no room for n the error is
// ErrTooManyReservations. Cancel works only for the newest turns, because others would leave holes.
//
// Reset forgets what was reserved, though its holder may rely on it. After SetLimit has lowered
// the limit, earlier reservations are still admitted.
func (l *Limiter) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return l.member.reserve(ctx, n)
}

func (m *member) reserve(ctx context.Context, n int64) (*Reservation, error) {
	c := m.core
	start := c.client.now()
	r, err := m.admit(ctx, n, false)
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
	var err error
	if r == nil {
		d, err = m.outage(nil, n, false, nil)
	} else {
		err = m.exactly(ctx, r, n, start, &d)
	}
	if err != nil {
		return nil, err
	}
	now, deadline := c.client.now(), c.deadline(ctx)
	if d.Allowed {
		return c.turn(d, n, deadline)
	}
	if c.limitOf(r).Algorithm == LeakyBucket { // what it grants is reserved already, and its queue is full
		if deadline != 0 && now+int64(d.RetryAfter) > deadline {
			return nil, fmt.Errorf("%w: the next try can succeed in %s", ErrWaitTooLong, d.RetryAfter)
		}
		return nil, fmt.Errorf("%w: the queue has no room for %d permits", ErrTooManyReservations, n)
	}
	if !c.rare().reserved.Room(now, n, c.permits(r)/c.record().Participants()) {
		return nil, fmt.Errorf("%w: %d permits are outstanding", ErrTooManyReservations, c.rare().reserved.Sum(now))
	}
	made := &Reservation{decision: d, n: n}
	if d.engine == nil {
		made.decision, made.due, err = m.bookWhenDue(ctx, r, n, deadline, start)
		var away *awayError
		if !errors.As(err, &away) {
			return c.outstanding(made, err)
		}
		if made.decision, err = m.outage(r, n, false, away.cause); err != nil {
			return nil, err
		}
		if made.decision.Allowed {
			return c.turn(made.decision, n, deadline)
		}
	}
	made.due, err = bookLocal(&made.decision, n, deadline)
	return c.outstanding(made, err)
}

// bookWhenDue books n permits for when there is room for them and, while participants contend, the
// participant's credit has paid for them. What is dated later than there is room holds others up,
// so that is no more than a quarter of a window.
func (m *member) bookWhenDue(ctx context.Context, r *routes, n, deadline, start int64) (Decision, int64, error) {
	c := m.core
	call, last := bookCall{n: n, deadline: deadline, since: start, windows: 1}, start+int64(r.limit.Per/4)
	for range bookAttempts {
		d, due, err := m.book(ctx, r, call)
		var paced *pacedError
		if !errors.As(err, &paced) {
			return d, due, err
		}
		if deadline != 0 && paced.until > deadline {
			return d, 0,
				fmt.Errorf("%w: its part of the limit is used up for %s", ErrWaitTooLong,
					time.Duration(paced.until-c.client.now()))
		}
		if call.at = paced.until; call.at > last {
			break
		}
	}
	return Decision{}, 0,
		fmt.Errorf("%w: its part of the limit is used up for %s", ErrTooManyReservations,
			time.Duration(call.at-c.client.now()))
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

// outstanding notes a reservation that was made.
func (c *core) outstanding(r *Reservation, err error) (*Reservation, error) {
	if err != nil {
		return nil, err
	}
	c.rare().reserved.Add(r, r.due, r.n)
	return r, nil
}

// bookLocal reserves n permits of what this process enforces by itself.
func bookLocal(d *Decision, n, deadline int64) (due int64, err error) {
	g, due, err := d.engine.Book(n, deadline)
	switch {
	case errors.Is(err, local.ErrFull):
		return 0, ErrTooManyReservations
	case err != nil:
		return 0, fmt.Errorf("%w: %d permits", ErrWaitTooLong, n)
	}
	d.Allowed, d.Granted, d.RetryAfter = true, n, 0
	d.ticket, d.until, d.first = g.Ticket, g.Until, lane.Part{At: g.At, N: n}
	return due, nil
}
