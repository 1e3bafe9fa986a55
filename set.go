package shardlimit

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/set"
)

// Part is a limit and how many of its permits are wanted: a part of a Set.
type Part struct {
	of *Limiter
	n  int64
}

// N returns a part of a Set: n permits of this limit. With 0 a call does not ask the limit, and
// Settle charges it nothing; the part has its place in Settle and Each all the same. With less, or
// more than MaxPermits, calls return ErrInvalidPermits.
func (l *Limiter) N(n int64) Part { return Part{l, n} }

// Set is several limits that a call must pass together, such as so many requests and so many
// tokens, or per user and in all. It is safe for concurrent use.
//
// Each limit holds by itself, as if it were asked alone. A call that one of them
// refuses gives back at once what the others granted, so while it is under way
// other callers may find those permits taken.
type Set struct {
	in    set.Set
	parts []*Limiter
}

// All returns a Set of the parts, each a limit with what a call costs there. Their limits may be of
// different Clients and scopes. A Set costs nothing to make, so make one for each call whose costs
// are its own.
//
// A limit that is named twice is asked once, for the sum, as the participant that is named first.
// The empty Set allows everything. With a nil Limiter among the parts, or two of one key that bring
// different limits, every call returns ErrInvalidLimit.
func All(parts ...Part) *Set {
	s, all := &Set{parts: make([]*Limiter, len(parts))}, make([]set.Part, len(parts))
	for i, p := range parts {
		if s.parts[i], all[i].N = p.of, p.n; p.of != nil {
			all[i].Limiter = &p.of.in
		}
	}
	s.in.Of(all)
	return s
}

// Each returns what each limit said of a decision of this Set, in the order of All: what it
// granted and has left, and when there is more. Of a denied call, it tells which limits refused:
// Allowed says whether the limit by itself had room, and Remaining counts what it was given back.
// A limit that was not asked, because another one refused, says what this process last heard from
// it. Of what this process remembers nothing, such as an idle key of a Family, it is the whole
// limit, and Limiter is "". One that failed says no more than its Limit.
// Settle the decision itself, not these.
func (s *Set) Each(d Decision) []Decision {
	in := d.in()
	var each []Decision
	for _, said := range s.in.Each(&in) {
		each = append(each, decisionOf(&said))
	}
	return each
}

// Allow asks every limit for its permits, all or nothing, and answers at once.
//
// In the Decision, Granted is the sum. Remaining and Limit are those of the limit that has least
// left (Each tells of all). RetryAfter is when the last of those that refuse can grant; Reason and
// Decision.Limiter tell of that one. ResetAfter is the latest of all, and Degraded tells that an
// outage policy spoke for at least one. What limits in Shadow have left it tells only if none of
// the others has anything to say.
//
// What this process knows to be refused is refused without asking Redis. Else all limits are asked
// at once, so that a call takes one round trip. Errors are those of Limiter.AllowN; a limit that
// refuses makes it a denial, whatever the others say.
func (s *Set) Allow(ctx context.Context) (Decision, error) {
	in, err := s.in.Allow(ctx)
	return s.answer(ctx, &in, err == nil && !in.Allowed), err
}

// Wait blocks until every limit granted its permits together. A call waits in the line of the limit
// that refuses for longest, among those who wait for that limit alone or in other Sets, and all in
// the order in which they came. Permits that one limit grants while another one refuses go back; if
// those come within about the same time, the call keeps its place, so it does not starve.
//
// With a LeakyBucket among the limits it sleeps until the turn that all were granted for. Errors
// are those of Limiter.WaitN; ErrWaitTooLong comes at once if, as far as this process has heard,
// the permits cannot come before the deadline of ctx.
func (s *Set) Wait(ctx context.Context) error {
	_, err := s.Acquire(ctx)
	return err
}

// Acquire waits as Wait does and returns its Decision, so that Settle can give back what was not
// used. Errors are those of Wait, and the Decision is as Limiter.Acquire says.
func (s *Set) Acquire(ctx context.Context) (Decision, error) {
	in, err := s.in.Acquire(ctx)
	return s.answer(ctx, &in, errors.Is(err, ErrWaitTooLong)), err
}

// answer returns a Decision of the engine for users, and tells who hears of refusals.
func (s *Set) answer(ctx context.Context, in *call.Decision, refused bool) Decision {
	d := decisionOf(in)
	if refused {
		if place, n := s.in.Refused(in); place >= 0 {
			s.parts[place].tell(ctx, n, &d)
		}
	}
	return d
}

// Settle settles a decision of this Set with each of its limits, as Limiter.Settle does: used is a
// number for each part, in the order of All. Of a limit that is named twice the sum counts. The
// decision may come from another process, whose Set has the same limits in the same order. The
// error is ErrInvalidPermits if there are more or fewer numbers than parts, and ErrSettled only if
// all limits had it settled before.
func (s *Set) Settle(ctx context.Context, d Decision, used ...int64) error {
	in := d.in()
	return s.in.Settle(ctx, &in, used)
}
