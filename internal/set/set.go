// Package set is calls on several limits at once.
package set

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// Part is a limit and how many of its permits a call wants.
type Part struct {
	Limiter *call.Limiter
	N       int64
}

// Set is several limits that a call must pass together.
type Set struct {
	parts   []Part // no two of one limit
	places  []int  // of the parts that All was called with, among these
	invalid error  // why it cannot be used
}

// Of makes the empty Set one of the parts. With a limiter that is nil, or different limits for one
// key, every call returns ErrInvalidLimit, with a number below 0 ErrInvalidPermits.
func (s *Set) Of(parts []Part) {
	for i, p := range parts {
		switch {
		case p.Limiter == nil:
			s.invalid = fmt.Errorf("%w: number %d of All is nil", limit.ErrInvalidLimit, i+1)
			return
		case p.N < 0 || p.N > limit.MaxPermits:
			s.invalid = fmt.Errorf("%w: number %d of All asks for %d, that must be 0 to %d",
				limit.ErrInvalidPermits, i+1, p.N, int64(limit.MaxPermits))
			return
		case slices.ContainsFunc(s.parts, func(o Part) bool { return o.Limiter.Contradicts(p.Limiter) }):
			s.invalid = fmt.Errorf("%w: number %d of All brings another limit for the key of one before it",
				limit.ErrInvalidLimit, i+1)
			return
		}
		at := slices.IndexFunc(s.parts, func(o Part) bool { return o.Limiter.Same(p.Limiter) })
		if at < 0 {
			at, s.parts = len(s.parts), append(s.parts, Part{Limiter: p.Limiter})
		}
		s.parts[at].N += p.N
		s.places = append(s.places, at)
	}
}

// Each returns what each limit said of a decision of this Set, in the order of All.
func (s *Set) Each(d *call.Decision) []call.Decision {
	if d.Joint == nil || len(*d.Joint) != len(s.parts) {
		return nil
	}
	each := make([]call.Decision, len(s.places))
	for i, at := range s.places {
		said := (*d.Joint)[at]
		each[i] = call.Decision{Answer: said.Answer, Origin: call.Origin{Mode: said.Mode, Target: said.Target}}
		if !d.Allowed {
			each[i].Granted = 0
		}
	}
	return each
}

// Refused returns the number, in the order of All, of the part that a denial is about, and how many
// permits were wanted of it; -1 if there is none.
func (s *Set) Refused(d *call.Decision) (place int, n int64) {
	at := slices.IndexFunc(s.parts, func(p Part) bool { return p.Limiter.Decided(d) })
	if at < 0 {
		return -1, 0
	}
	return slices.Index(s.places, at), s.parts[at].N
}

// Allow asks for the permits of every limit, all or nothing, and answers at once.
func (s *Set) Allow(ctx context.Context) (call.Decision, error) {
	if s.invalid != nil {
		return call.Decision{}, s.invalid
	}
	c := s.begin(ctx)
	defer c.end()
	return c.decide()
}

// Acquire blocks until the permits of every limit were granted together. It waits in the line of
// the limit that refuses for longest. What it is granted there it holds while it asks the others,
// and gives it back if one of them refuses: then it waits in that one's line.
func (s *Set) Acquire(ctx context.Context) (call.Decision, error) {
	if s.invalid != nil {
		return call.Decision{}, s.invalid
	}
	ctx, stop := s.untilClosed(ctx)
	defer stop()
	c := s.begin(ctx)
	defer c.end()
	for c.waits = true; ; {
		d, err := c.decide()
		switch {
		case err != nil && !slices.ContainsFunc(c.votes, ends):
			if !clock.Sleep(ctx, wait.OutageNap/2+chance.N(wait.OutageNap)) {
				return call.Decision{}, clock.Ended(ctx)
			}
			continue
		case err != nil:
			return d, err
		case d.Allowed:
			return c.sleepOut(ctx, d)
		}
		if d.Mode != limit.Closed { // else nobody knows when it opens
			if err := inTime(ctx, d.RetryAfter); err != nil {
				return d, err
			}
		}
		if d, err := c.stand(*d.Joint); err != nil {
			return d, err
		}
	}
}

// sleepOut sleeps until what was granted may act. If that is after the deadline
// of ctx, or ctx ends before, everything is given back.
func (c *setCall) sleepOut(ctx context.Context, d call.Decision) (call.Decision, error) {
	if d.Delay == 0 {
		return d, nil
	}
	err := inTime(ctx, d.Delay)
	if err == nil && !clock.Sleep(ctx, d.Delay) {
		err = clock.Ended(ctx)
	}
	if err == nil {
		d.Delay, d.ResetAfter = 0, max(0, d.ResetAfter-d.Delay)
		return d, nil
	}
	var late call.Decision
	for i := range c.votes {
		v := &c.votes[i]
		if v.said.Delay == d.Delay && errors.Is(err, limit.ErrWaitTooLong) {
			late = call.TooLate(v.Target)
		}
		v.asked, v.since = true, v.Target.Process.Now()
	}
	c.handBack()
	return late, err
}

// untilClosed returns a context that also ends when one of the Clients is closed.
func (s *Set) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, len(s.parts))
	for _, p := range s.parts {
		stops = append(stops, context.AfterFunc(p.Limiter.Target.Process.Context, func() { cancel(limit.ErrClosed) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Settle settles a decision of this Set with every limit, each for what was used of it. The error
// is ErrSettled only if all that something was to be settled with had it settled before.
func (s *Set) Settle(ctx context.Context, d *call.Decision, used []int64) error {
	switch {
	case s.invalid != nil:
		return s.invalid
	case len(used) != len(s.places):
		return fmt.Errorf("%w: %d numbers for the %d parts of All", limit.ErrInvalidPermits, len(used), len(s.places))
	case !d.Allowed || len(s.parts) == 0:
		return nil
	}
	each, sum := make([]call.Decision, len(s.parts)), make([]int64, len(s.parts))
	switch {
	case d.Joint != nil && len(*d.Joint) == len(each):
		copy(each, *d.Joint)
	case d.Joint == nil && len(each) == 1: // handed over
		each[0] = *d
	default:
		return fmt.Errorf("%w: settle it with what made it, not with this Set", limit.ErrOtherLimiter)
	}
	for i, n := range used {
		at := s.places[i]
		if sum[at] += n; n < 0 || sum[at] > limit.MaxPermits {
			return fmt.Errorf("%w: %d used of number %d, that must be 0 to %d", limit.ErrInvalidPermits, n, i+1,
				int64(limit.MaxPermits))
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(each))
	for i, p := range s.parts {
		wg.Go(func() { errs[i] = p.Limiter.Settle(ctx, &each[i], sum[i]) })
	}
	wg.Wait()
	var others []error
	settled := false // one, and just now
	for i, err := range errs {
		settled = settled || err == nil && each[i].Settles(sum[i])
		if !errors.Is(err, limit.ErrSettled) {
			others = append(others, err)
		}
	}
	if settled {
		errs = others
	}
	return errors.Join(errs...)
}

// ends reports whether callers do not wait on after what failed, by the limit's own policy.
func ends(v vote) bool { return v.err != nil && !v.Target.Process.WaitsOn(v.err) }

// inTime returns ErrWaitTooLong if ctx ends sooner than that.
func inTime(ctx context.Context, wait time.Duration) error {
	if at, ok := ctx.Deadline(); ok && time.Until(at) < wait {
		return fmt.Errorf("%w: the next try can succeed in %s", limit.ErrWaitTooLong, wait)
	}
	return nil
}
