package shardlimit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/register"
)

// pumpNap is the longest the head of a queue sleeps without looking again, so
// that what comes back elsewhere is noticed; long windows stretch it.
const pumpNap = 2 * time.Second

// outageNap is how long callers who wait through an outage do so until they look again, on average.
const outageNap = time.Second

// longestNap is the longest the head of a queue sleeps without looking again, so that permits that
// come back before they were expected are noticed: what was given back elsewhere, or a cancelled
// reservation.
func longestNap(window time.Duration) time.Duration { return max(min(pumpNap, window/4), window/16) }

// pump serves the line until it is empty.
func (q *queue) pump(ctx context.Context) {
	c := q.member.core
	nap := time.NewTimer(time.Hour)
	defer nap.Stop()
	futile := 0
	for {
		r, _ := c.inUse(ctx)
		if r == nil && c.deleted() {
			q.failAll(register.ErrDeleted)
		}
		n, singles, ok := q.head(r)
		if !ok {
			return
		}
		if ctx.Err() != nil {
			q.failAll(ErrClosed)
			continue
		}
		if c.mode(r) == Closed {
			c.Refresh() // the line may be empty long before the nap is over
			q.nap(ctx, nap, pumpNap)
			continue
		}
		_, restarts := q.first(n)
		var d Decision
		err := q.member.atOnce(ctx, r, n, singles, c.client.now(), 0, &d)
		if err != nil {
			q.failed(ctx, nap, err)
			continue
		}
		if d.Granted > 0 {
			futile = 0
			q.hand(d, singles)
			q.note(d.Granted < n)
			continue
		}
		q.note(true)
		q.dismissHopeless(c.client.now() + int64(d.RetryAfter))
		served, retry := q.bookHead(ctx, r, n, singles, restarts, d.RetryAfter)
		if served {
			futile = 0
			continue
		}
		window := c.limitOf(r).Per
		long := longestNap(window)
		if retry <= long { // else it looks before anything is promised, and is late for nothing
			futile++
			long = retry + stagger(futile, window)
		}
		if q.nap(ctx, nap, long) {
			futile = 0
			q.member.forgetDenials(r) // what was heard may be older than what woke us
		}
	}
}

// failed has those who wait go on after an error that may pass, and fails them for any other.
func (q *queue) failed(ctx context.Context, nap *time.Timer, err error) {
	switch {
	case ctx.Err() != nil:
		q.failAll(ErrClosed)
	case q.member.core.waitsOn(err):
		q.nap(ctx, nap, outageNap/2+chance.N(outageNap))
	default:
		q.failAll(err)
	}
}

// nap waits for so long, and reports whether somebody poked it. While it waits the record of the
// limit is read, as it would be if the callers asked.
func (q *queue) nap(ctx context.Context, timer *time.Timer, long time.Duration) (poked bool) {
	for long > 0 {
		slice := min(long, pumpNap)
		timer.Reset(slice)
		select {
		case <-timer.C:
			q.member.core.Refresh()
			long -= slice
		case <-q.poke:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// bookHead books the n permits that the head of the line wants at once, where such can be booked.
// If they cannot be yet, it returns when to try again, else the time it was given.
func (q *queue) bookHead(ctx context.Context, r *routes, n int64, singles bool, restarts uint64,
	retry time.Duration) (served bool, again time.Duration) {
	if singles || r == nil || r.limit.Scope != Global || r.limit.Algorithm == LeakyBucket {
		return false, retry
	}
	served, until := q.reserveAhead(ctx, r, n, restarts)
	if until != 0 { // it may book long before a call finds room
		retry = time.Duration(max(0, until-q.member.core.client.now()))
	}
	return served, retry
}

// note remembers what the line is short of, for the shards to know who wants more
// than it gets.
func (q *queue) note(short bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if short {
		q.member.Wanted.Store(q.wanted)
	} else {
		q.member.Wanted.Store(0)
	}
}

// stagger spreads the processes that were woken by the same release and came
// too late for it, more widely the more often that happened in a row.
func stagger(futile int, window time.Duration) time.Duration {
	if futile < 2 {
		return 0
	}
	return chance.N(min(window/64<<min(futile-2, 3), 100*time.Millisecond) + 1)
}

// head is what the line wants next: one permit each for the callers at its head
// that want one, else what the first one wants, all at once. A line that is
// empty ends the pump.
func (q *queue) head(r *routes) (n int64, singles, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = false
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		w := e.Value.(*waiter)
		if r == nil || w.n <= r.limit.most() || r.limit.Mode.lenient() {
			break
		}
		q.dismiss(w, fmt.Errorf("%w: %d asked for, the limit is now %d", ErrExceedsLimit, w.n, r.limit.most()))
	}
	e := q.line.Front()
	if e == nil {
		q.member.Wanted.Store(0)
		q.pumping = false
		return 0, false, false
	}
	if first := e.Value.(*waiter); first.n > 1 {
		return first.n, false, true
	}
	for ; e != nil && e.Value.(*waiter).n == 1 && n < MaxPermits; e = e.Next() {
		n++
	}
	return n, true, true
}

// hand gives the permits to the head of the line, and back what nobody wants any more because
// callers have left meanwhile. Who cannot wait until its turn leaves it to those behind.
func (q *queue) hand(d Decision, singles bool) {
	c, left := q.member.core, d.Granted
	now := c.client.now()
	q.mu.Lock()
	q.notBefore = 0
	for e := q.line.Front(); e != nil && left > 0; e = q.line.Front() {
		w := e.Value.(*waiter)
		if w.n > left || singles && w.n != 1 {
			break
		}
		served := d
		if w.n < d.Granted {
			served = d.piece(d.Granted-left, w.n, c.ownTicket())
		}
		if d.Delay > 0 {
			w.due = cmp.Or(served.due(), now+int64(served.Delay))
			served.Delay = time.Duration(max(0, w.due-now))
		}
		if w.deadline != 0 && w.due > w.deadline {
			q.dismiss(w, fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, served.Delay))
			continue
		}
		w.served, left = served, left-w.n
		q.dismiss(w, nil)
	}
	q.mu.Unlock()
	if left > 0 {
		c.giveBack(d.last(left), false)
	}
}

// dismissHopeless ends the waiting of those whose deadline comes before their
// permits can, given that the head was denied until next. If that is the head
// itself, the one behind it asks next: it may want less.
func (q *queue) dismissHopeless(next int64) {
	limit := q.member.core.limitNow()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.woken {
		return
	}
	q.notBefore = next
	wanted := int64(0)
	for e := q.line.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.deadline == 0 || q.inTime(wanted+w.n, w.deadline, limit) {
			wanted += w.n
			continue
		}
		q.dismiss(w, fmt.Errorf("%w: the next try can succeed in %s, and %d permits are wanted before",
			ErrWaitTooLong, time.Duration(next-q.member.core.client.now()), wanted))
		if wanted == 0 {
			q.wakeLocked()
			return
		}
	}
}

func (q *queue) failAll(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		q.dismiss(e.Value.(*waiter), err)
	}
}
