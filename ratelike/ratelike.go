// Package ratelike gives a shardlimit.Limiter the methods of *rate.Limiter of
// golang.org/x/time/rate, for code that expects an interface of that shape. It does not import that
// module. New code is better off with shardlimit.Limiter: it tells why and when, and returns
// errors.
package ratelike

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// Limiter has the methods of *rate.Limiter, but for those that change it: use Limiter.SetLimit of
// shardlimit. It is safe for concurrent use.
//
// What differs:
//
//   - The limit is shared by all processes, so calls ask Redis and can fail. A call without an
//     error to return says no then, after at most Config.CallTimeout, and Failed hears why. While
//     no shard answers, Config.OnOutage decides.
//   - Times that are given are not looked at: the clocks of the nodes count.
//   - Limit is a float64, as rate.Limit is of a type of its own.
//   - Any algorithm counts; TokenBucket is what rate.Limiter does. Under LeakyBucket Allow waits
//     for a turn that comes within 100 ms, and is false for a later one.
//   - Reserve reaches no farther ahead than Limiter.Reserve of shardlimit says, an hour for a
//     bucket.
type Limiter struct {
	// Failed hears the errors of calls that return none; nil: nobody does. It must not change once
	// the Limiter is in use, and is called by many goroutines at the same time.
	Failed func(error)

	limiter *shardlimit.Limiter
}

// New returns a Limiter that asks l, which must not be nil.
func New(l *shardlimit.Limiter) *Limiter {
	if l == nil {
		panic("ratelike: New needs a Limiter")
	}
	return &Limiter{limiter: l}
}

// Allow reports whether one permit is there now, and takes it.
func (l *Limiter) Allow() bool { return l.AllowN(time.Time{}, 1) }

// AllowN reports whether n permits are there now, and takes them. With n below 1 it is true.
func (l *Limiter) AllowN(_ time.Time, n int) bool {
	if n < 1 {
		return true
	}
	if l.limiter.Limit().Algorithm != shardlimit.LeakyBucket {
		d, err := l.limiter.AllowN(context.Background(), int64(n))
		return l.heard(err) && d.Allowed
	}
	soon, cancel := context.WithTimeout(context.Background(), shardlimit.DefaultCallTimeout)
	defer cancel()
	err := l.limiter.WaitN(soon, int64(n))
	if errors.Is(err, shardlimit.ErrWaitTooLong) {
		return false
	}
	return l.heard(err)
}

// Wait blocks until one permit was granted. See WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until n permits were granted, as Limiter.WaitN of shardlimit, whose errors it has.
// With n below 1 it is nil, unless ctx has ended.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if n < 1 {
		return clock.Ended(ctx)
	}
	return l.limiter.WaitN(ctx, int64(n))
}

// Reserve reserves one permit. See ReserveN.
func (l *Limiter) Reserve() *Reservation { return l.ReserveN(time.Time{}, 1) }

// ReserveN reserves n permits. It is not OK if they cannot be reserved, and Failed hears why: of a
// limit of Scope PerParticipant only what is free can.
func (l *Limiter) ReserveN(_ time.Time, n int) *Reservation {
	if n < 1 {
		return &Reservation{ok: true, limiter: l}
	}
	r, err := l.limiter.Reserve(context.Background(), int64(n))
	return &Reservation{ok: l.heard(err), limiter: l, reserved: r}
}

// Limit is how many permits come in a second.
func (l *Limiter) Limit() float64 {
	limit := l.limiter.Limit()
	return float64(limit.Permits) / limit.Per.Seconds()
}

// Burst is how many permits can be granted at once at the most.
func (l *Limiter) Burst() int {
	limit := l.limiter.Limit()
	if limit.Burst > 0 {
		return int(min(limit.Burst, math.MaxInt))
	}
	return int(min(limit.Permits, math.MaxInt))
}

// Tokens is how many permits are there now, 0 if no shard answers. It asks every shard.
func (l *Limiter) Tokens() float64 {
	st, err := l.limiter.Peek(context.Background())
	l.heard(err)
	return float64(st.Remaining)
}

// TokensAt is Tokens.
func (l *Limiter) TokensAt(time.Time) float64 { return l.Tokens() }

// heard reports whether there is no error.
func (l *Limiter) heard(err error) bool {
	if err != nil && l.Failed != nil {
		l.Failed(err)
	}
	return err == nil
}

// InfDuration is how long to wait for a Reservation that is not OK: for ever.
const InfDuration = time.Duration(math.MaxInt64)

// Reservation has the methods of *rate.Reservation. It is safe for concurrent use.
type Reservation struct {
	ok       bool
	limiter  *Limiter
	reserved *shardlimit.Reservation // nil: nothing to wait for
}

// OK reports whether the permits were reserved.
func (r *Reservation) OK() bool { return r.ok }

// Delay is how long to wait before the permits may be used: InfDuration if it is not OK.
func (r *Reservation) Delay() time.Duration {
	switch {
	case !r.ok:
		return InfDuration
	case r.reserved == nil:
		return 0
	}
	return r.reserved.Delay()
}

// DelayFrom is how long after t the permits may be used, at least 0.
func (r *Reservation) DelayFrom(t time.Time) time.Duration {
	if !r.ok || r.reserved == nil {
		return r.Delay()
	}
	return max(0, r.reserved.At().Sub(t))
}

// Cancel gives the permits back if they are not due yet, after at most Config.CallTimeout. Failed
// hears why it did not.
func (r *Reservation) Cancel() {
	if r.ok && r.reserved != nil {
		r.limiter.heard(r.reserved.Cancel(context.Background()))
	}
}

// CancelAt is Cancel.
func (r *Reservation) CancelAt(time.Time) { r.Cancel() }
