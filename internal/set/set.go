// Package set is calls on several limits at once.
package set

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/line"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// Set is several limits that a call must pass together.
type Set struct {
	limiters []*call.Limiter // no two of one limit
	places   []int           // of the limits that All was called with, among these
	invalid  error           // why it cannot be used

	line      line.Line
	notBefore atomic.Int64 // when the head can be served at the earliest; 0 unknown
}

// Of makes the empty Set one of the limiters. With a nil among them every call returns
// ErrInvalidLimit.
func (s *Set) Of(limiters []*call.Limiter) {
	for i, l := range limiters {
		if l == nil {
			s.limiters, s.places = nil, nil
			s.invalid = fmt.Errorf("%w: number %d of All is nil", limit.ErrInvalidLimit, i+1)
			return
		}
		at := slices.IndexFunc(s.limiters, l.Same)
		if at < 0 {
			at, s.limiters = len(s.limiters), append(s.limiters, l)
		}
		s.places = append(s.places, at)
	}
}

// Each returns what each limit said of a decision of this Set, in the order of All.
func (s *Set) Each(d *call.Decision) []call.Decision {
	if d.Joint == nil || len(*d.Joint) != len(s.limiters) {
		return nil
	}
	each := make([]call.Decision, len(s.places))
	for i, at := range s.places {
		said := (*d.Joint)[at]
		each[i] = call.Decision{Answer: said.Answer, Origin: call.Origin{Mode: said.Mode}}
		if !d.Allowed {
			each[i].Granted = 0
		}
	}
	return each
}

// AllowN asks for n permits of every limit, all or nothing, and answers at once.
func (s *Set) AllowN(ctx context.Context, n int64) (call.Decision, error) {
	if len(s.limiters) == 0 {
		return s.empty(ctx, n)
	}
	c := &setCall{ctx: ctx, n: n, votes: make([]setVote, len(s.limiters))}
	for i, l := range s.limiters {
		m := l.Hold()
		defer m.Target.Release()
		c.votes[i] = setVote{Member: m, since: m.Target.Process.Now()}
	}
	if err := c.admit(); err != nil {
		return call.Decision{}, err
	}
	c.fromMemory()
	c.everybodyElse()
	return c.result()
}

// Acquire blocks until n permits of every limit were granted together.
func (s *Set) Acquire(ctx context.Context, n int64) (call.Decision, error) {
	if s.line.Len() == 0 {
		d, err := s.AllowN(ctx, n)
		if err != nil && !s.waitsOn(err) {
			return d, err
		}
		if d.Allowed {
			return s.sleepOut(ctx, d)
		}
		if err := canGoOn(ctx, &d); err != nil {
			return d, err
		}
	} else if first := time.Duration(s.notBefore.Load() - s.now()); inTime(ctx, first) != nil {
		return call.Decision{Answer: call.Answer{RetryAfter: first}}, inTime(ctx, first)
	}
	within, stop := s.untilClosed(ctx)
	defer stop()
	leave, err := s.line.Join(within)
	if err != nil {
		return call.Decision{}, err
	}
	d, err := s.head(within, n)
	leave() // who sleeps until its turn does not hold up those behind it
	if err != nil {
		return d, err
	}
	return s.sleepOut(within, d)
}

// head tries until n permits are granted or cannot come in time.
func (s *Set) head(ctx context.Context, n int64) (call.Decision, error) {
	defer s.notBefore.Store(0)
	for futile := 0; ; {
		d, err := s.AllowN(ctx, n)
		if err != nil && s.waitsOn(err) {
			if !clock.Sleep(ctx, wait.OutageNap/2+chance.N(wait.OutageNap)) {
				return d, clock.Ended(ctx)
			}
			continue
		}
		if err != nil || d.Allowed {
			return d, err
		}
		if err := canGoOn(ctx, &d); err != nil {
			return d, err
		}
		if d.Mode != limit.Closed {
			s.notBefore.Store(s.now() + int64(d.RetryAfter))
		}
		long := wait.PumpNap
		if d.RetryAfter <= long { // else it looks before anything is promised, and is late for nothing
			long = d.RetryAfter + wait.Stagger(futile, 8*d.RetryAfter)
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
		!slices.ContainsFunc(s.limiters, func(l *call.Limiter) bool { return !l.Target.WaitsOn(err) })
}

// sleepOut sleeps until what was granted may act. If that is after the deadline
// of ctx, or ctx ends before, everything is given back.
func (s *Set) sleepOut(ctx context.Context, d call.Decision) (call.Decision, error) {
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
	if d.Joint != nil {
		var wg sync.WaitGroup
		for _, part := range *d.Joint {
			wg.Go(func() { part.Target.HandBack(ctx, part, part.Target.Process.Now()) })
		}
		wg.Wait()
	}
	return call.Decision{}, err
}

// now returns the time on the clock of notBefore.
func (s *Set) now() int64 { return s.limiters[0].Target.Process.Now() }

// untilClosed returns a context that also ends when one of the Clients is closed.
func (s *Set) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, len(s.limiters))
	for _, l := range s.limiters {
		stops = append(stops, context.AfterFunc(l.Target.Process.Context, func() { cancel(limit.ErrClosed) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Settle settles a decision of this Set with every limit. The error is ErrSettled only if all had
// it settled before.
func (s *Set) Settle(ctx context.Context, d *call.Decision, used int64) error {
	if s.invalid != nil {
		return s.invalid
	}
	each := make([]call.Decision, len(s.limiters))
	switch {
	case !d.Allowed || len(s.limiters) == 0:
		return nil
	case d.Joint != nil && len(*d.Joint) == len(each):
		copy(each, *d.Joint)
	case d.Joint == nil && len(each) == 1: // handed over
		each[0] = *d
	default:
		return fmt.Errorf("%w: settle it with what made it, not with this Set", limit.ErrOtherLimiter)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(each))
	for i, l := range s.limiters {
		wg.Go(func() { errs[i] = l.Settle(ctx, &each[i], used) })
	}
	wg.Wait()
	if slices.Contains(errs, nil) || !errors.Is(errors.Join(errs...), limit.ErrSettled) {
		for i, err := range errs {
			if errors.Is(err, limit.ErrSettled) {
				errs[i] = nil
			}
		}
	}
	return errors.Join(errs...)
}

// empty returns the answer of a Set without limits, or of one that cannot be used.
func (s *Set) empty(ctx context.Context, n int64) (call.Decision, error) {
	if s.invalid != nil {
		return call.Decision{}, s.invalid
	}
	if n < 1 {
		return call.Decision{}, call.TooFew(n)
	}
	if ctx.Err() != nil {
		return call.Decision{}, clock.Ended(ctx)
	}
	const all = limit.MaxPermits
	return call.Decision{Answer: call.Answer{Allowed: true, Granted: n, Limit: all, Remaining: all},
		Origin: call.Origin{Mode: limit.Off, Source: telemetry.Memory}}, nil
}

// canGoOn returns ErrWaitTooLong if ctx ends sooner than another try can succeed. When a limit will
// be opened nobody knows.
func canGoOn(ctx context.Context, d *call.Decision) error {
	if d.Mode == limit.Closed {
		return nil
	}
	return inTime(ctx, d.RetryAfter)
}

// inTime returns ErrWaitTooLong if ctx ends sooner than that.
func inTime(ctx context.Context, wait time.Duration) error {
	if at, ok := ctx.Deadline(); ok && time.Until(at) < wait {
		return fmt.Errorf("%w: the next try can succeed in %s", limit.ErrWaitTooLong, wait)
	}
	return nil
}

// Waiting returns the number of callers in the line.
func (s *Set) Waiting() int { return s.line.Len() }

// NotBefore returns when the head of the line can be served at the earliest, 0 if that is not
// known.
func (s *Set) NotBefore() int64 { return s.notBefore.Load() }
