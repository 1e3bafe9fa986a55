package call

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// lease is permits that were granted to this process in advance. The shards log permits of such a
// limit for the window plus the lease, so whenever one is used before until, it stays logged for a
// whole window after that.
type lease struct {
	Left  atomic.Int64 // permits, those in front: the last ones go first; below zero once it has ended
	epoch int64        // of the layout for whose span the shards log its permits
	Until int64        // on the client's clock; nothing is taken after it
	nonce uint64       // tells its places from those of every other lease, of any process
	// how long the machine had been suspended when it began; nothing is taken after another
	// suspension
	slept  int64
	from   int64    // when it was asked for
	grant  Decision // where they came from, in the order of their places
	origin special  // of the decisions that it serves
	Timer  *time.Timer
}

// leases decides how much a process holds in advance: as much as it was seen to
// need in the time of a lease, and little when little is left.
type leases struct {
	member  *Member
	Current atomic.Pointer[lease]
	asking  atomic.Bool  // one refill at a time
	need    atomic.Int64 // permits that the next lease shall have
}

// serve gets n permits or none, of a limit that has leases: from the lease, or from Redis. Up to n
// are from the lease, too, if that has all or Redis has none.
func (ls *leases) serve(ctx context.Context, r *limit.Routes, q call, d *Decision) error {
	l := ls.Current.Load()
	if l != nil && l.serve(ls.member.Target, r, q, d) {
		return nil
	}
	if q.upTo {
		err := ls.member.View(r).some(ctx, q, d)
		if d.Granted > 0 || l == nil || err != nil && !errors.Is(err, limit.ErrUnavailable) {
			return err
		}
		var held Decision
		q.since, q.slept = ls.member.Target.Process.Clock.Look()
		if q.n = min(q.n, l.Left.Load()); q.n > 0 && l.serve(ls.member.Target, r, q, &held) {
			*d, err = held, nil
		}
		return err
	}
	if ok, err := ls.refill(ctx, r, q, d); ok {
		return err
	}
	return ls.member.View(r).whole(ctx, q, d)
}

// Have reports whether a lease has n permits.
func (ls *leases) Have(r *limit.Routes, n, now int64) bool {
	l := ls.Current.Load()
	return l != nil && r.Limit.Lease > 0 && now < l.Until && l.Left.Load() >= n
}

// take takes n of the permits, and returns the place of the first of them, which is how many are
// left.
func (l *lease) take(n int64) (place int64, ok bool) {
	for had := l.Left.Load(); had >= n; had = l.Left.Load() {
		if l.Left.CompareAndSwap(had, had-n) {
			return had - n, true
		}
	}
	return 0, false
}

// serve serves a call from the lease, and reports whether that has so many permits. It does while
// the lease is what the shards hold it for: the layout is the same, and the machine was not
// suspended. Else its permits may be free again before the lease seems over.
func (l *lease) serve(c *Target, r *limit.Routes, q call, d *Decision) bool {
	if q.since >= l.Until || l.epoch != r.Layout.Epoch || l.slept != q.slept {
		return false
	}
	place, ok := l.take(q.n)
	if !ok {
		return false
	}
	d.Allowed, d.Granted = true, q.n
	d.Limit, d.Remaining = r.Limit.Permits, r.Free()+place
	d.ResetAfter = r.ResetAfter(q.since)
	d.Source, d.Target, d.special = telemetry.Lease, c, &l.origin
	d.ticket = uint64(place)
	return true
}

// refill asks for the permits of a call and for a new lease in one go. ok is false if the
// caller should go the ordinary way: somebody else is at it, or there is no
// reason for a lease.
func (ls *leases) refill(ctx context.Context, r *limit.Routes, q call, d *Decision) (ok bool, err error) {
	if !ls.asking.CompareAndSwap(false, true) {
		return false, nil
	}
	defer ls.asking.Store(false)
	if l := ls.Current.Load(); l != nil {
		if l.serve(ls.member.Target, r, q, d) { // it was begun after the caller had looked
			return true, nil
		}
		ls.retire(l)
	}
	extra := ls.size(r)
	if extra < 1 || q.n+extra > r.Limit.Permits {
		return false, nil
	}
	var all Decision
	err = ls.member.View(r).some(ctx, call{n: q.n + extra, since: q.since}, &all)
	switch {
	case err != nil:
		return true, err
	case all.Degraded:
		ls.member.Target.GiveBackAll(all, false)
		return false, nil // the outage policy decides about n alone
	case all.Granted < q.n:
		ls.member.Target.HandBack(ctx, all, q.since, false)
		return false, nil // it may still be that n can be had
	case all.Granted > q.n:
		ls.begin(r, all.Last(all.Granted-q.n), q)
		all = all.firstOf(q.n)
	}
	*d = all
	return true, nil
}

// size returns how many permits the next lease should have: what is needed, but no more than a fair
// part of what is free, so that a process does not hoard what others will be denied.
func (ls *leases) size(r *limit.Routes) int64 {
	fair := r.Free() / (2 * ls.member.Target.Record().Participants.Load())
	return min(max(ls.need.Load(), 1), fair)
}

// begin puts a lease in force. It ends Lease after the call that asked for its permits began,
// which is before Lease after they were granted. There is none if a shard is known to be under
// another layout by now: it may log permits for another span.
func (ls *leases) begin(r *limit.Routes, grant Decision, q call) {
	c := ls.member.Target
	l := &lease{epoch: r.Layout.Epoch, Until: q.since + int64(r.Limit.Lease), slept: q.slept, from: q.since,
		nonce: chance.Uint64(), grant: grant}
	if l.Until <= c.Process.Now() || c.Record().Highest.Load() > l.epoch || c.Process.Clock.Suspended() != q.slept {
		// or the answer took longer than the lease
		c.Process.Spawn(func(context.Context) { c.GiveBackAll(grant, false) })
		return
	}
	l.Left.Store(grant.Granted)
	ls.put(l)
}

// put makes the lease the current one until it ends.
func (ls *leases) put(l *lease) {
	l.origin.lease = l
	l.Timer = time.AfterFunc(time.Duration(l.Until-ls.member.Target.Process.Now()), func() { ls.retire(l) })
	ls.Current.Store(l)
}

// retire ends a lease, unless it has ended: it gives back the rest, and learns from its use.
func (ls *leases) retire(l *lease) {
	left := l.Left.Swap(-1)
	if left < 0 {
		return
	}
	ls.Current.CompareAndSwap(l, nil)
	ls.learn(l, left)
	if left > 0 {
		rest := l.grant.firstOf(left)
		ls.member.Target.Process.Spawn(func(context.Context) { ls.member.Target.GiveBackAll(rest, false) })
	}
}

// learn sets the size of the next lease. One that was used up early was too
// small: it would have lasted for its time at the speed at which it went, and the
// next one is up to eight times as large. Of one that was not used up, the next has what was used.
func (ls *leases) learn(l *lease, left int64) {
	used := l.grant.Granted - left
	need := used + used/8 + 1
	if left == 0 {
		lasted := max(ls.member.Target.Process.Now()-l.from, 1)
		span := l.Until - l.from
		atThatSpeed := int64(float64(used) * float64(span) / float64(lasted))
		need = min(max(atThatSpeed, used), 8*used+8)
	}
	ls.need.Store(need)
}

// firstOf returns the decision with only its first n permits; Last has the others.
func (d *Decision) firstOf(n int64) Decision { return d.cut(0, n, d.ticket) }

// cut returns the decision with only n of its permits, from a place in their order on.
func (d *Decision) cut(place, n int64, ticket uint64) Decision {
	own := *d
	own.Granted, own.first, own.special = 0, dispatch.Part{}, nil
	if s := d.rarely(); s.engine != nil {
		own.special = &special{engine: s.engine, era: s.era}
	}
	own.addParts(dispatch.Cut(d.parts(), place, n), ticket)
	return own
}

// Piece returns n permits of a decision, from a place in their order on, as a decision of its own
// that its ticket tells from the others.
func (d *Decision) Piece(place, n int64, ticket uint64) Decision {
	own := d.cut(place, n, ticket)
	own.ticket, own.Granted = ticket, n // the outage policy grants permits that are of no shard
	if own.Remaining += d.Granted - place - n; own.Remaining > 0 {
		own.NextAfter = 0
	}
	return own
}

// Due returns when the last of its turns comes, on the client's clock; 0: all permits may be used
// at once.
func (d *Decision) Due() (at int64) {
	for _, p := range d.parts() {
		at = max(at, p.Last)
	}
	return at
}

// Last returns the part of a decision that makes up its last n permits.
func (d *Decision) Last(n int64) Decision { return d.cut(d.Granted-n, n, 0) }
