package shardlimit

import (
	"context"
	"errors"
	"time"
)

// Acquire is WaitN that returns its Decision, so that Refund can give back what was not used. It
// blocks until n permits were granted together, and until their turn under LeakyBucket, so Delay
// is 0. Errors are those of WaitN. With ErrWaitTooLong RetryAfter tells how long it takes until
// another try can succeed, and is 0 if this process does not know.
//
// Refund gives back nothing of a turn that has come. Of permits of a TokenBucket that were reserved
// first, as WaitN says, it may give back less: they count as used once they are due.
func (l *Limiter) Acquire(ctx context.Context, n int64) (Decision, error) {
	return l.member.wait(ctx, n)
}

// AcquireWithin is Acquire that waits for at most the time given: 0 or less means not at all. That
// the permits did not come in time is a denial, not an error. The error is that of ctx, if that
// ended before, or one of WaitN.
//
// Under LeakyBucket a turn that comes later is not taken, so others can have it. RetryAfter
// tells when it comes.
func (l *Limiter) AcquireWithin(ctx context.Context, n int64, most time.Duration) (Decision, error) {
	if most <= 0 && l.Limit().Algorithm == LeakyBucket {
		var d Decision
		err := l.member.turnNow(ctx, n, &d)
		return d, err
	}
	if most <= 0 {
		return l.AllowN(ctx, n)
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	d, err := l.Acquire(within, n)
	switch {
	case errors.Is(err, ErrUnavailable): // a node that is silent ends a call by a deadline, too
	case errors.Is(err, ErrWaitTooLong), ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		l.member.timeIsUp(n, &d)
		return d, nil
	}
	return d, err
}

// turnNow takes no turn but one that has come.
func (m *member) turnNow(ctx context.Context, n int64, d *Decision) error {
	c := m.core
	start := c.client.now()
	r, _, err := m.admit(ctx, n, false)
	if err != nil {
		return err
	}
	if err = m.atOnce(ctx, r, n, start, start, d); err == nil && d.Delay > 0 { // of several shards, or while none answers
		c.handBack(ctx, *d, start)
		*d = Decision{Limit: d.Limit, Degraded: d.Degraded, RetryAfter: d.Delay, mode: d.mode, source: d.source, core: c}
	}
	if err == nil && d.Granted < n {
		m.noteUnmet(d, n)
	}
	c.decided(ctx, d, n, start, err)
	return err
}

// timeIsUp fills in the denial of a call for n permits that waited as long as it may: when another
// try can succeed, as far as this process has heard.
func (m *member) timeIsUp(n int64, d *Decision) {
	c := m.core
	r := c.routes.Load()
	switch {
	case c.mode(r) == Closed:
		m.byMode(r, n, false, d)
	case r != nil && d.RetryAfter == 0:
		now := c.client.now()
		_, reachable, next := m.view(r).shutOut(now)
		if !reachable {
			next = now + int64(outageNap)
		}
		c.deny(r, now, time.Duration(next-now), d)
	}
}

// TryAcquire is AcquireWithin that only reports whether the permits were granted.
func (l *Limiter) TryAcquire(ctx context.Context, n int64, most time.Duration) (bool, error) {
	d, err := l.AcquireWithin(ctx, n, most)
	return d.Allowed, err
}

// Acquire is WaitN that returns its Decision, so that Set.Refund can give back what was not used.
// Errors are those of WaitN, and the Decision is as Limiter.Acquire says.
func (s *Set) Acquire(ctx context.Context, n int64) (Decision, error) {
	if s.line.Len() == 0 {
		d, err := s.AllowN(ctx, n)
		if err != nil && !s.waitsOn(err) {
			return d, err
		}
		if d.Allowed {
			return s.sleepOut(ctx, d)
		}
		if err := d.inTime(ctx); err != nil {
			return d, err
		}
	} else if first := time.Duration(s.notBefore.Load() - s.now()); inTime(ctx, first) != nil {
		return Decision{RetryAfter: first}, inTime(ctx, first)
	}
	within, stop := s.untilClosed(ctx)
	defer stop()
	leave, err := s.line.Join(within)
	if err != nil {
		return Decision{}, err
	}
	d, err := s.head(within, n)
	leave() // who sleeps until its turn does not hold up those behind it
	if err != nil {
		return d, err
	}
	return s.sleepOut(within, d)
}
