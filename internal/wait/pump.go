package wait

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
)

// PumpNap is the longest the head of a queue sleeps without looking again, so that what comes back
// elsewhere is noticed; long windows stretch it.
const PumpNap = 2 * time.Second

// OutageNap is how long callers who wait through an outage do so until they look again, on average.
const OutageNap = time.Second

// longestNap returns for how long at most the head of a queue sleeps without looking again. So
// permits that come back before they were expected are noticed: what was given back elsewhere, or a
// cancelled reservation.
func longestNap(window time.Duration) time.Duration { return max(min(PumpNap, window/4), window/16) }

// returnNap is the longest where permits come back early.
const returnNap = 250 * time.Millisecond

// shortNap returns for how long the head of a queue sleeps where permits come back early. That
// varies, so that each process that waits is as often the first to look after a return.
func shortNap(r *limit.Routes) time.Duration {
	most := min(call.Believed(r), returnNap)
	return most/2 + chance.N(most/2+1)
}

// pump is the goroutine that asks for permits on behalf of the head of a line.
type pump struct {
	*queue
	ctx    context.Context
	rested bool // it has just left to other processes what came back
}

// run serves the line until it is empty.
func (q *pump) run() {
	c, ctx := q.member.Target, q.ctx
	for {
		r, _ := c.InUse(ctx)
		if r == nil && c.Record().Deleted() {
			q.failAll(register.ErrDeleted)
		}
		n, singles, ok := q.head(r)
		if !ok {
			return
		}
		if ctx.Err() != nil {
			q.failAll(limit.ErrClosed)
			continue
		}
		if c.LimitOf(r).Mode == limit.Closed {
			c.Refresh() // the line may be empty long before the nap is over
			q.nap(PumpNap)
			continue
		}
		if n == 0 {
			q.trust(r)
			continue
		}
		q.ask(r, n, singles)
	}
}

// ask asks once for n permits, what the head of the line wants or, of singles, so many of the line.
// If there are none it sleeps.
func (q *pump) ask(r *limit.Routes, n int64, singles bool) {
	c := q.member.Target
	early, part := q.early(r), int64(limit.MaxPermits)
	if early {
		part = call.CourtesyOf(c).Part(r)
	}
	if part < 1 && !q.rested {
		q.rest(r)
		return
	}
	if q.rested = false; singles {
		n = min(n, max(part, 1))
	}
	_, restarts := q.first(n)
	var d call.Decision
	if err := q.member.AtOnce(q.ctx, r, n, singles, c.Process.Now(), 0, &d); err != nil {
		q.failed(err)
		return
	}
	call.CourtesyOf(c).Got(r, &d)
	if d.Granted > 0 {
		q.hand(d, singles)
		q.note(d.Granted < n)
		return
	}
	q.note(true)
	q.dismissHopeless(r, c.Process.Now()+int64(d.RetryAfter))
	served, retry := q.bookHead(r, n, singles, restarts, d.RetryAfter)
	if served {
		return
	}
	long := min(longestNap(c.LimitOf(r).Per), retry)
	if part < 1 {
		q.rest(r)
		return
	}
	if early {
		long = min(long, shortNap(r))
	}
	if q.nap(long) || early {
		q.member.ForgetDenials(r) // what was heard may be older than what woke us
	}
}

// early reports whether permits of the limit come back early.
func (q *queue) early(r *limit.Routes) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r != nil && (q.patient || call.Early(r))
}

// rest leaves what comes back to other processes for a while, or until this one has less than its
// part.
func (q *pump) rest(r *limit.Routes) {
	c := q.member.Target
	until := c.Process.Now() + int64(shortNap(r))
	for q.nap(time.Duration(until-c.Process.Now())) && call.CourtesyOf(c).Part(r) < 1 {
		continue
	}
	q.member.ForgetDenials(r)
	q.rested = true
}

// trust waits while the head of the line is believed to lack permits: at most for as long as such a
// belief lasts.
func (q *pump) trust(r *limit.Routes) {
	c := q.member.Target
	window := c.LimitOf(r).Per
	long := longestNap(window)
	if r != nil {
		long = min(long, call.Believed(r))
	}
	if lacks := q.member.Lacks(r, 1); lacks > 0 {
		q.dismissHopeless(r, c.Process.Now()+int64(lacks))
		long = min(long, lacks)
	}
	q.nap(long)
}

// failed has those who wait go on after an error that may pass, and fails them for any other.
func (q *pump) failed(err error) {
	switch {
	case q.ctx.Err() != nil:
		q.failAll(limit.ErrClosed)
	case q.member.Target.Process.WaitsOn(err):
		q.nap(OutageNap/2 + chance.N(OutageNap))
	default:
		q.failAll(err)
	}
}

// nap waits for so long, and reports whether somebody poked it. While it waits the record of the
// limit is read, as it would be if the callers asked.
func (q *pump) nap(long time.Duration) (poked bool) {
	for long > 0 {
		slice := min(long, PumpNap)
		select {
		case <-time.After(slice):
			q.member.Target.Refresh()
			long -= slice
		case <-q.poke:
			return true
		case <-q.ctx.Done():
			return false
		}
	}
	return false
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

// head returns what the line wants next: one permit each for the callers at its head that want one,
// else what the first one wants, all at once. 0 is nothing yet. A line that is empty ends the pump.
func (q *queue) head(r *limit.Routes) (n int64, singles, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = false
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		w := e.Value.(*waiter)
		if r == nil || w.N <= r.Limit.Most() || r.Limit.Mode.Lenient() {
			if w.Ready == nil {
				break
			}
			if q.member.Lacks(r, w.N) > 0 {
				return 0, false, true
			}
			if w.Ready() {
				break
			}
			q.dismiss(w, ErrElsewhere)
			continue
		}
		q.dismiss(w, fmt.Errorf("%w: %d asked for, the limit is now %d", limit.ErrExceedsLimit, w.N, r.Limit.Most()))
	}
	e := q.line.Front()
	if e == nil {
		q.member.Wanted.Store(0)
		q.pumping, q.notBefore = false, 0 // while it is empty it hears of nothing
		q.member.Target.Members.Ends(q)
		return 0, false, false
	}
	if first := e.Value.(*waiter); first.N > 1 {
		return first.N, false, true
	}
	for ; e != nil && e.Value.(*waiter).N == 1 && n < limit.MaxPermits; e = e.Next() {
		n++
	}
	return n, true, true
}

// hand gives the permits to the head of the line, and back what nobody wants any more because
// callers have left meanwhile. Who cannot wait until its turn leaves it to those behind.
func (q *queue) hand(d call.Decision, singles bool) {
	c, left := q.member.Target, d.Granted
	now := c.Process.Now()
	q.mu.Lock()
	q.notBefore = 0
	for e := q.line.Front(); e != nil && left > 0; e = q.line.Front() {
		w := e.Value.(*waiter)
		if w.N > left || w.N == 0 || singles && w.N != 1 {
			break
		}
		if w.Ready != nil && !w.Ready() {
			q.dismiss(w, ErrElsewhere)
			continue
		}
		served := d
		if w.N < d.Granted {
			served = d.Piece(d.Granted-left, w.N, c.OwnTicket())
		}
		if d.Delay > 0 {
			w.due = cmp.Or(served.Due(), now+int64(served.Delay))
			served.Delay = time.Duration(max(0, w.due-now))
		}
		if w.Deadline != 0 && w.due > w.Deadline {
			q.dismiss(w, fmt.Errorf("%w: its turn comes in %s", limit.ErrWaitTooLong, served.Delay))
			continue
		}
		w.served, left = served, left-w.N
		q.dismiss(w, nil)
	}
	q.mu.Unlock()
	if left > 0 {
		c.GiveBackAll(d.Last(left), false)
	}
}

// dismissHopeless ends the waiting of those whose deadline comes before their
// permits can, given that the head was denied until next. If that is the head
// itself, the one behind it asks next: it may want less. Nobody is hopeless while a shard is away:
// it may be back at any time.
func (q *queue) dismissHopeless(r *limit.Routes, next int64) {
	if call.Away(r) {
		return
	}
	of := q.member.Target.LimitNow()
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
		if w.Deadline == 0 || q.inTime(wanted+w.N, w.Deadline, of) {
			wanted += w.N
			continue
		}
		q.dismiss(w, fmt.Errorf("%w: the next try can succeed in %s%s", limit.ErrWaitTooLong,
			time.Duration(next-q.member.Target.Process.Now()), inFront(wanted)))
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
