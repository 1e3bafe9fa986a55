package shardlimit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/set"
)

// Set is several limits that a call must pass together, such as so many per
// second and so many per hour, or per user and in all. It is safe for concurrent use.
//
// Each limit holds by itself, as if it were asked alone. A call that one of them
// refuses gives back at once what the others granted, so while it is under way
// other callers may find those permits taken.
type Set struct {
	in set.Set
}

// All returns a Set of the limiters, which may be of different Clients and scopes; a limit that is
// named twice counts once. Two limiters of one key that bring different limits count it twice. A
// Set costs nothing to make, but callers of Wait line up only behind those of the same Set: share
// one, where the order of arrival matters. The empty Set allows everything. With a nil among the
// limiters every call returns ErrInvalidLimit.
func All(limiters ...*Limiter) *Set {
	all := make([]*call.Limiter, len(limiters))
	for i, l := range limiters {
		if l != nil {
			all[i] = &l.in
		}
	}
	s := &Set{}
	s.in.Of(all)
	return s
}

// Each returns what each limit said of a decision of this Set, in the order of All: what it has
// left, and when there is more. Of a denied call, Allowed tells whether the limit by itself had
// room, and Remaining counts what it was given back. A limit that was not asked, because another
// one refused, says what this process last heard from it; one that failed says no more than its
// Limit. Settle the decision itself, not these.
func (s *Set) Each(d Decision) []Decision {
	in := d.in()
	var each []Decision
	for _, said := range s.in.Each(&in) {
		each = append(each, decisionOf(&said))
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
	d, err := s.in.AllowN(ctx, n)
	return decisionOf(&d), err
}

// Wait blocks until one permit of every limit was granted. See WaitN.
func (s *Set) Wait(ctx context.Context) error { return s.WaitN(ctx, 1) }

// WaitN blocks until n permits of every limit were granted together. Callers of one Set are served
// first come, first served. Nothing is held while it waits, except that with a LeakyBucket among
// the limits it sleeps until the turn that all were granted for. Errors are those of Limiter.WaitN;
// ErrWaitTooLong comes at once if it is certain that the permits cannot come before the deadline of
// ctx.
func (s *Set) WaitN(ctx context.Context, n int64) error {
	_, err := s.in.Acquire(ctx, n)
	return err
}

// Acquire waits as WaitN does and returns its Decision, so that Set.Settle can give back what was
// not used. Errors are those of WaitN, and the Decision is as Limiter.Acquire says.
func (s *Set) Acquire(ctx context.Context, n int64) (Decision, error) {
	d, err := s.in.Acquire(ctx, n)
	return decisionOf(&d), err
}

// Settle settles a decision of this Set with every limit, as Limiter.Settle does. The error is
// ErrSettled only if all had it settled before.
func (s *Set) Settle(ctx context.Context, d Decision, used int64) error {
	in := d.in()
	return s.in.Settle(ctx, &in, used)
}
