package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/line"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Set is several limits that a call must pass together, such as so many per
// second and so many per hour, or per user and in all. It is safe for concurrent use.
//
// Each limit holds by itself, as if it were asked alone. A call that one of them
// refuses gives back at once what the others granted, so while it is under way
// other callers may find those permits taken.
type Set struct {
	limiters []*Limiter // no two of one limit
	places   []int      // of the limits that All was called with, among these
	invalid  error      // why it cannot be used

	line      line.Line
	notBefore atomic.Int64 // when the head can be served at the earliest; 0 unknown
}

// All returns a Set of the limiters, which may be of different Clients and scopes; a limit that is
// named twice counts once. Two limiters of one key that bring different limits count it twice. A
// Set costs nothing to make, but callers of Wait line up only behind those of the same Set: share
// one, where the order of arrival matters. The empty Set allows everything. With a nil among the
// limiters every call returns ErrInvalidLimit.
func All(limiters ...*Limiter) *Set {
	s := &Set{}
	for i, l := range limiters {
		if l == nil {
			return &Set{invalid: fmt.Errorf("%w: number %d of All is nil", ErrInvalidLimit, i+1)}
		}
		at := slices.IndexFunc(s.limiters, l.same)
		if at < 0 {
			at, s.limiters = len(s.limiters), append(s.limiters, l)
		}
		s.places = append(s.places, at)
	}
	return s
}

// Each returns what each limit said of a decision of this Set, in the order of All: what it has
// left, and when there is more. Of a denied call, Allowed tells whether the limit by itself had
// room, and Remaining counts what it was given back. A limit that was not asked, because another
// one refused, says what this process last heard from it; one that failed says no more than its
// Limit. Settle the decision itself, not these.
func (s *Set) Each(d Decision) []Decision {
	if d.joint == nil || len(*d.joint) != len(s.limiters) {
		return nil
	}
	each := make([]Decision, len(s.places))
	for i, at := range s.places {
		said := (*d.joint)[at]
		each[i] = Decision{Allowed: said.Allowed, Limit: said.Limit, Remaining: said.Remaining, Delay: said.Delay,
			RetryAfter: said.RetryAfter, NextAfter: said.NextAfter, ResetAfter: said.ResetAfter,
			Degraded: said.Degraded, Shadowed: said.Shadowed, mode: said.mode}
		if d.Allowed {
			each[i].Granted = said.Granted
		}
	}
	return each
}

// Allow asks for one permit of every limit. See AllowN.
func (s *Set) Allow(ctx context.Context) (Decision, error) { return s.AllowN(ctx, 1) }

// AllowN asks for n permits of every limit, all or nothing, and answers at once.
//
// In the Decision, Remaining and Limit are those of the limit that has least left (Each tells of
// all), RetryAfter is when the last of those that refuse can grant, ResetAfter the latest of all,
// and Degraded tells that an outage policy spoke for at least one. What limits in Shadow have left
// it tells only if none of the others has anything to say.
//
// What this process knows to be refused is refused without asking Redis. Else all limits are asked
// at once, so that a call takes one round trip. Errors are those of Limiter.AllowN; a limit that
// refuses makes it a denial, whatever the others say.
func (s *Set) AllowN(ctx context.Context, n int64) (Decision, error) {
	if len(s.limiters) == 0 {
		return s.empty(ctx, n)
	}
	c := &setCall{ctx: ctx, n: n, votes: make([]setVote, len(s.limiters))}
	for i, l := range s.limiters {
		m := l.hold()
		defer m.core.release()
		c.votes[i] = setVote{member: m, since: m.core.client.now()}
	}
	if err := c.admit(); err != nil {
		return Decision{}, err
	}
	c.fromMemory()
	c.everybodyElse()
	return c.result()
}

// Wait blocks until one permit of every limit was granted. See WaitN.
func (s *Set) Wait(ctx context.Context) error { return s.WaitN(ctx, 1) }

// WaitN blocks until n permits of every limit were granted together. Callers of one Set are served
// first come, first served. Nothing is held while it waits, except that with a LeakyBucket among
// the limits it sleeps until the turn that all were granted for. Errors are those of Limiter.WaitN;
// ErrWaitTooLong comes at once if it is certain that the permits cannot come before the deadline of
// ctx.
func (s *Set) WaitN(ctx context.Context, n int64) error {
	_, err := s.Acquire(ctx, n)
	return err
}

// head tries until n permits are granted or cannot come in time.
func (s *Set) head(ctx context.Context, n int64) (Decision, error) {
	defer s.notBefore.Store(0)
	for futile := 0; ; {
		d, err := s.AllowN(ctx, n)
		if err != nil && s.waitsOn(err) {
			if !clock.Sleep(ctx, outageNap/2+chance.N(outageNap)) {
				return d, clock.Ended(ctx)
			}
			continue
		}
		if err != nil || d.Allowed {
			return d, err
		}
		if err := d.inTime(ctx); err != nil {
			return d, err
		}
		if d.mode != Closed {
			s.notBefore.Store(s.now() + int64(d.RetryAfter))
		}
		long := pumpNap
		if d.RetryAfter <= long { // else it looks before anything is promised, and is late for nothing
			long = d.RetryAfter + stagger(futile, 8*d.RetryAfter)
			futile++
		}
		if !clock.Sleep(ctx, long) {
			return d, clock.Ended(ctx)
		}
	}
}

// waitsOn reports whether callers wait on after a call that ended so.
func (s *Set) waitsOn(err error) bool {
	return len(s.limiters) > 0 &&
		!slices.ContainsFunc(s.limiters, func(l *Limiter) bool { return !l.core.waitsOn(err) })
}

// sleepOut sleeps until what was granted may act. If that is after the deadline
// of ctx, or ctx ends before, everything is given back.
func (s *Set) sleepOut(ctx context.Context, d Decision) (Decision, error) {
	if d.Delay == 0 {
		return d, nil
	}
	ctx, stop := s.untilClosed(ctx)
	defer stop()
	err := inTime(ctx, d.Delay)
	if err == nil && !clock.Sleep(ctx, d.Delay) {
		err = clock.Ended(ctx)
	}
	if err == nil {
		d.Delay, d.ResetAfter = 0, max(0, d.ResetAfter-d.Delay)
		return d, nil
	}
	if d.joint != nil {
		var wg sync.WaitGroup
		for _, part := range *d.joint {
			wg.Go(func() { part.core.handBack(ctx, part, part.core.client.now()) })
		}
		wg.Wait()
	}
	return Decision{}, err
}

// now is a clock for notBefore.
func (s *Set) now() int64 { return s.limiters[0].core.client.now() }

// untilClosed is a context that also ends when one of the Clients is closed.
func (s *Set) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, len(s.limiters))
	for _, l := range s.limiters {
		stops = append(stops, context.AfterFunc(l.core.client.ctx, func() { cancel(ErrClosed) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Settle settles a decision of this Set with every limit, as Limiter.Settle does. The error is
// ErrSettled only if all had it settled before.
func (s *Set) Settle(ctx context.Context, d Decision, used int64) error {
	if s.invalid != nil {
		return s.invalid
	}
	each := make([]Decision, len(s.limiters))
	switch {
	case !d.Allowed || len(s.limiters) == 0:
		return nil
	case d.joint != nil && len(*d.joint) == len(each):
		copy(each, *d.joint)
	case len(d.handed) == len(each):
		for i, h := range d.handed {
			each[i] = Decision{Granted: h.granted, handed: []handed{h}}
		}
	default:
		return fmt.Errorf("%w: settle it with what made it, not with this Set", ErrOtherLimiter)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(each))
	for i, l := range s.limiters {
		wg.Go(func() { errs[i] = l.Settle(ctx, each[i], used) })
	}
	wg.Wait()
	if slices.Contains(errs, nil) || !errors.Is(errors.Join(errs...), ErrSettled) {
		for i, err := range errs {
			if errors.Is(err, ErrSettled) {
				errs[i] = nil
			}
		}
	}
	return errors.Join(errs...)
}

// empty is the answer of a Set without limits, or of one that cannot be used.
func (s *Set) empty(ctx context.Context, n int64) (Decision, error) {
	if s.invalid != nil {
		return Decision{}, s.invalid
	}
	if n < 1 {
		return Decision{}, tooFew(n)
	}
	if ctx.Err() != nil {
		return Decision{}, clock.Ended(ctx)
	}
	return Decision{Allowed: true, Granted: n, Limit: MaxPermits, Remaining: MaxPermits, mode: Off,
		source: telemetry.Memory}, nil
}

// inTime returns ErrWaitTooLong if ctx ends sooner than another try can succeed. When a limit will
// be opened nobody knows.
func (d *Decision) inTime(ctx context.Context) error {
	if d.mode == Closed {
		return nil
	}
	return inTime(ctx, d.RetryAfter)
}

// inTime returns ErrWaitTooLong if ctx ends sooner than that.
func inTime(ctx context.Context, wait time.Duration) error {
	if at, ok := ctx.Deadline(); ok && time.Until(at) < wait {
		return fmt.Errorf("%w: the next try can succeed in %s", ErrWaitTooLong, wait)
	}
	return nil
}
