package shardlimit

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// lease is a stock of permits that was granted to this process in advance. The
// shards log permits of such a limit for the window plus the lease, so whenever
// one is used before until, it stays logged for a whole window after that.
type lease struct {
	left  atomic.Int64
	until int64    // on the client's clock; nothing is taken after it
	from  int64    // when it was asked for
	size  int64    // permits at first
	grant Decision // where they came from
	timer *time.Timer
}

// closedLease is what left is set to at the end: so far below zero that nobody takes any more.
const closedLease = math.MinInt64 / 2

// leases decides how much a process holds in advance: as much as it was seen to
// need in the time of a lease, and little when little is left.
type leases struct {
	account *account
	current atomic.Pointer[lease]
	asking  atomic.Bool // one refill at a time

	mu   sync.Mutex
	need int64 // permits that the next lease shall have
}

// exactly gets n permits or none: from the lease, if the limit has leases, else from Redis.
func (a *account) exactly(ctx context.Context, t *table, n, since int64, d *Decision) error {
	if t.limit.Lease > 0 {
		return a.leased(ctx, t, n, since, d)
	}
	return a.whole(ctx, t, n, since, d)
}

// leased is exactly for a limit that has leases.
func (a *account) leased(ctx context.Context, t *table, n, since int64, d *Decision) error {
	if l := a.leases.current.Load(); l != nil && since < l.until && l.left.Load() >= n {
		if left := l.left.Add(-n); left >= 0 {
			a.core.held(t, l, n, left, since, d)
			return nil
		}
		l.left.Add(n)
	}
	if ok, err := a.leases.refill(ctx, t, n, since, d); ok {
		return err
	}
	return a.whole(ctx, t, n, since, d)
}

// held fills in the decision for n permits of a lease in which left remain.
func (c *core) held(t *table, l *lease, n, left, now int64, d *Decision) {
	d.Allowed, d.Granted = true, n
	d.Limit, d.Remaining = t.limit.Permits, t.free()+left
	d.ResetAfter = t.resetAfter(now)
	d.source, d.core, d.lease = sourceLease, c, l
	d.ticket, d.until = uint64(left), now+int64(t.layout.Span())
}

// refill asks for n permits and for a new lease in one go. ok is false if the
// caller should go the ordinary way: somebody else is at it, or there is no
// reason for a lease.
func (ls *leases) refill(ctx context.Context, t *table, n, since int64, d *Decision) (ok bool, err error) {
	if !ls.asking.CompareAndSwap(false, true) {
		return false, nil
	}
	defer ls.asking.Store(false)
	ls.retire(ls.current.Load())
	extra := ls.size(t)
	if extra < 1 || n+extra > t.limit.Permits {
		return false, nil
	}
	var all Decision
	err = ls.account.some(ctx, t, n+extra, since, &all)
	switch {
	case err != nil:
		return true, err
	case all.Degraded:
		ls.account.core.giveBack(all)
		return false, nil // the outage policy decides about n alone
	case all.Granted < n:
		ls.account.core.handBack(ctx, all, since)
		return false, nil // it may still be that n can be had
	case all.Granted > n:
		ls.begin(t, all.last(all.Granted-n), since)
		all = all.firstOf(n)
	}
	*d = all
	return true, nil
}

// size is how many permits the next lease should have: what is needed, but no
// more than a fair part of what is free, so that a process does not hoard what
// others will be denied.
func (ls *leases) size(t *table) int64 {
	ls.mu.Lock()
	need := max(ls.need, 1)
	ls.mu.Unlock()
	fair := t.free() / (2 * ls.account.core.record().participants.Load())
	return min(need, fair)
}

// begin puts a lease in force. It ends Lease after the permits were asked for,
// which is before Lease after they were granted.
func (ls *leases) begin(t *table, grant Decision, since int64) {
	l := &lease{until: since + int64(t.limit.Lease), from: since, size: grant.Granted, grant: grant}
	l.left.Store(grant.Granted)
	left := time.Duration(l.until - ls.account.core.client.now())
	if left <= 0 { // the answer took longer than the lease
		ls.account.core.client.spawn(func(context.Context) { ls.account.core.giveBack(grant) })
		return
	}
	l.timer = time.AfterFunc(time.Hour, func() { ls.retire(l) })
	l.timer.Reset(left) // not sooner: the function needs the timer
	ls.current.Store(l)
}

// retire ends a lease, gives back what is left of it, and learns from its use.
func (ls *leases) retire(l *lease) {
	if l == nil {
		return
	}
	left := l.left.Swap(closedLease)
	if left < -math.MaxInt64/4 {
		return // retired before
	}
	l.timer.Stop()
	ls.current.CompareAndSwap(l, nil)
	left = max(left, 0)
	ls.learn(l, left)
	if left > 0 {
		rest := Decision{lease: l, ticket: 0, Granted: left}
		ls.account.core.client.spawn(func(context.Context) { ls.account.core.giveBack(rest) })
	}
}

// learn sets the size of the next lease. One that was used up early was too
// small: it would have lasted for its time at the speed at which it went, and the
// next one is up to eight times as large. Of one that was not used up, the next has what was used.
func (ls *leases) learn(l *lease, left int64) {
	used := l.size - left
	need := used + used/8 + 1
	if left == 0 {
		lasted := max(ls.account.core.client.now()-l.from, 1)
		span := l.until - l.from
		atThatSpeed := int64(float64(used) * float64(span) / float64(lasted))
		need = min(max(atThatSpeed, used), 8*used+8)
	}
	ls.mu.Lock()
	ls.need = need
	ls.mu.Unlock()
}

// slice returns where n permits of the lease came from, of which those before
// place are still there: the permits are used from the end.
func (l *lease) slice(place, n int64) (parts []part) {
	var begin int64
	for _, p := range l.grant.parts() {
		end := begin + p.n
		if from, to := max(begin, place), min(end, place+n); from < to {
			parts = append(parts, part{p.seat, p.at, to - from})
		}
		begin = end
	}
	return parts
}

// firstOf is the decision with only its first n permits; last has the others.
func (d *Decision) firstOf(n int64) Decision {
	own := *d
	own.Granted, own.first, own.more = 0, part{}, nil
	for _, p := range d.parts() {
		p.n = min(p.n, n)
		n -= p.n
		own.addPart(p, d.ticket)
	}
	return own
}
