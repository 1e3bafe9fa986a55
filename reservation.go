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

// Shadowed means that the limit is in Shadow mode, and that Enforced would have had the permits
// later or not at all.
func (r *Reservation) Shadowed() bool { return r.decision.Shadowed }

// Cancel gives the permits back, so that others can have them; what others have
// reserved does not move. It works once, and until the permits are due: later they
// count as used, and nothing happens. While participants contend, what the reservation kept from
// others until then is paid for. Where a shard of a TokenBucket has more than 64 reservations,
// Cancel may give back less. The error is a *ShardError for each shard that could not be reached;
// Cancel may then be called again.
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
// How far ahead it may reach: ErrWaitTooLong means that the permits cannot come before the deadline
// of ctx, ErrTooManyReservations that there is no room for more.
//
//   - A TokenBucket or LeakyBucket is reserved for an hour ahead, a key of a Family for a minute or
//     64 windows, whichever is less, and any of them for two bursts. A limit with Failover is for
//     two bursts only, because a takeover waits until what is reserved was used. A shard of a
//     TokenBucket has room for 512 reservations, or more where two in a row are no more than the
//     burst of the shard.
//   - Of other algorithms at most the share of each shard is reserved ahead: what is reserved
//     further ahead would have to be remembered date by date. A shard of a SlidingCounter has room
//     for 24 reservations, of a FixedWindow for the next seven windows.
//
// A process may have one reservation of any size outstanding, or several, at most 4,096, that are
// together no more than its part of what may be reserved: that divided by the number of processes
// that use the limit. Other errors are those of AllowN.
//
// While participants contend, a reservation is charged to this one like any grant. If its part of
// the limit is used up for more than a quarter of a window, the error is ErrTooManyReservations,
// too. While no shard answers, OnOutage decides: FailLocal reserves within this process' part of
// the limit, FailOpen gives permits for at once.
//
// Every algorithm can reserve, and its bound holds for permits that are used when they are due.
// Under LeakyBucket every grant is a turn in a queue, so Reserve gets the turn that AllowN would
// get with its Delay, or one behind the Burst; nothing is granted at once until the queue is
// shorter again. Cancel works only for the newest turns, because others would leave holes.
//
// Reset forgets what was reserved, though its holder may rely on it. After SetLimit has lowered
// the limit, earlier reservations are still admitted, and a bucket grants nothing else until they
// were. A node that loses its memory forgets what was reserved there.
func (l *Limiter) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return l.member.reserve(ctx, n)
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
	if err := m.atOnce(ctx, r, n, start, deadline, &d); err != nil {
		return nil, err
	}
	if d.mode == Closed {
		return nil, fmt.Errorf("%w: limiter %q", ErrLimitClosed, c.name)
	}
	now := c.client.now()
	if d.Allowed {
		return c.turn(d, n, deadline)
	}
	if !c.rare().reserved.Room(now, n, c.mostReserved(r)) {
		return nil, fmt.Errorf("%w: %d permits are outstanding", ErrTooManyReservations, c.rare().reserved.Sum(now))
	}
	var err error
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
	made.due, err = bookLocal(&made.decision, n, deadline, c.mostAhead(r))
	return c.outstanding(made, err)
}

// mostReserved is how many permits a process may have reserved at the same time: its part of the
// limit, or of a bucket of what comes until as far ahead as it may be booked.
func (c *core) mostReserved(r *routes) int64 {
	most := float64(c.permits(r))
	if ahead := c.mostAhead(r); ahead > 0 {
		most = max(most, float64(r.limit.Permits)*float64(ahead)/float64(r.limit.Per))
	}
	return int64(most / float64(c.record().Participants()))
}

// bookWhenDue books n permits for when there is room for them and, while participants contend, the
// participant's credit has paid for them. What is dated later than there is room holds others up,
// so that is no more than a quarter of a window.
func (m *member) bookWhenDue(ctx context.Context, r *routes, n, deadline, start int64) (Decision, int64, error) {
	c := m.core
	call, last := bookCall{n: n, deadline: deadline, since: start, windows: 1}, start+int64(r.limit.Per/4)
	if r.limit.Algorithm.bursty() { // what it has booked is a debt, whatever its size
		call.windows = 0
	}
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
func bookLocal(d *Decision, n, deadline int64, ahead time.Duration) (due int64, err error) {
	g, due, err := d.engine.Book(n, deadline, ahead)
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
