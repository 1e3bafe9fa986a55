package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Reservation is permits that may be used from a known instant on.
type Reservation struct {
	Decision
	due int64 // on the client's clock
}

// Wait returns how long to wait from now on before the permits may be used.
func (r *Reservation) Wait() time.Duration {
	return time.Duration(max(0, r.due-r.Target.Process.Now()))
}

// At returns when the permits may be used, on this process' clock.
func (r *Reservation) At() time.Time { return r.Target.Process.Clock.At(r.due) }

// Cancel gives the permits back, until they are due.
func (r *Reservation) Cancel(ctx context.Context) error {
	c := r.Target.Hold()
	defer c.Release()
	switch {
	case c.Process.Closed.Load():
		return limit.ErrClosed
	case c.Process.Now() >= r.due:
		return nil
	}
	if err := c.settle(ctx, &r.Decision, settlement{unpaid: true}); !errors.Is(err, limit.ErrSettled) {
		return err
	}
	return nil
}

// Reserve gets n permits, now or at the earliest instant at which there is room for them. If it is
// refused, d is the denial.
func (l *Limiter) Reserve(ctx context.Context, n int64, d *Decision) (*Reservation, error) {
	m := l.Hold()
	c := m.Target
	defer c.Release()
	start := c.Process.Now()
	r, _, err := m.Admit(ctx, n, false)
	if err != nil {
		return nil, err
	}
	made, err := m.obtain(ctx, r, n, start, d)
	switch {
	case err == nil:
		c.decided(ctx, &made.Decision, n, start, nil)
	case IsRefusal(err):
		if d.Allowed { // its turn would have come too late
			*d = TooLate(c)
		}
		if errors.Is(err, limit.ErrOverloaded) {
			d.Reason = telemetry.Late
		}
		c.decided(ctx, d, n, start, nil)
	default:
		c.decided(ctx, &Decision{}, n, start, err)
	}
	return made, err
}

// TooLate returns the denial of a call whose turn comes too late.
func TooLate(c *Target) Decision {
	return Decision{Answer{Reason: telemetry.Full}, Origin{Target: c}}
}

// obtain gets n permits now, or reserves them. d is what is decided about now.
func (m *Member) obtain(ctx context.Context, r *limit.Routes, n, start int64, d *Decision) (*Reservation, error) {
	c := m.Target
	deadline := c.Process.Deadline(ctx)
	if err := m.AtOnce(ctx, r, n, false, start, deadline, d); err != nil {
		return nil, err
	}
	if d.Mode == limit.Closed {
		return nil, fmt.Errorf("%w: limiter %q", limit.ErrLimitClosed, c.Title())
	}
	if !d.Allowed && d.rarely().engine == nil { // what a process decides by itself is not reserved ahead
		var err error
		made := &Reservation{}
		made.Decision, made.due, err = m.Book(ctx, r, Booking{N: n, Deadline: deadline, Since: start})
		var away *partError
		switch {
		case err == nil:
			return made, nil
		case errors.Is(err, errTooFew):
			newer, err := c.later(ctx, r, call{n: n, since: start})
			if newer == nil || err != nil {
				return nil, cmp.Or(err, late(d.RetryAfter, deadline, c.Process.Now()))
			}
			*d = Decision{}
			return m.obtain(ctx, newer, n, start, d)
		case !errors.As(err, &away) || IsRefusal(err):
			return nil, err
		}
		if *d, err = m.outage(r, n, false, away.error); err != nil {
			return nil, err
		}
	}
	if d.Allowed {
		return granted(*d, deadline)
	}
	d.Hint(false)
	return nil, late(d.RetryAfter, deadline, c.Process.Now())
}

// granted returns the reservation that a grant is, due at once or, under LeakyBucket, when it may
// act.
func granted(d Decision, deadline int64) (*Reservation, error) {
	c := d.Target
	now := c.Process.Now()
	due := now + int64(d.Delay)
	if d.Delay > 0 && deadline != 0 && due > deadline {
		c.HandBack(c.Process.Context, d, now, false)
		return nil, fmt.Errorf("%w: its turn comes in %s", limit.ErrWaitTooLong, d.Delay)
	}
	return &Reservation{Decision: d, due: due}, nil
}
