package shardlimit

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// pumpNap is the longest the head of a queue sleeps without looking again, so
// that a refund elsewhere is noticed; long windows stretch it.
const pumpNap = 2 * time.Second

// queue is the line of callers that wait for permits of one limit in this
// process, for one participant: first come, first served. One goroutine, which exists only while
// somebody waits, asks for permits on behalf of the head.
type queue struct {
	account *account

	mu      sync.Mutex
	line    list.List // of *waiter
	wanted  int64     // by all in the line
	pumping bool
	poke    chan struct{}

	// What the head was told when it was last denied: that it cannot be served
	// before this instant. 0: nothing is known. It no longer holds when the
	// queue is woken, because then there is another head or more to give.
	notBefore int64
	woken     bool   // since the head last asked
	upsets    uint64 // how often usage was forgotten or the limit changed

	unserved atomic.Int64 // permits that the line still wanted when it last could not be served
}

// waiter is one blocked call.
type waiter struct {
	n        int64
	deadline int64         // on the client's clock; 0: none
	done     chan error    // one value
	delay    time.Duration // of what it was served: until it may act
	served   Decision      // what that is, if there is a delay
	place    *list.Element
}

// wait is WaitN.
func (a *account) wait(ctx context.Context, n int64) error {
	c := a.core
	start := c.client.now()
	t, err := a.admit(ctx, n, false)
	if err != nil {
		return err
	}
	deadline := c.deadline(ctx)
	if a.queue.empty() {
		var d Decision
		if t == nil {
			d, err = a.outage(nil, n, false, errNoRecord)
		} else {
			err = a.exactly(ctx, t, n, start, &d)
		}
		if err == nil && d.Allowed {
			err = c.sleepOut(ctx, d, d.Delay, deadline)
		}
		if err != nil || d.Allowed {
			c.client.tel.waited(ctx, c, &d, n, start, err)
			return err
		}
		if deadline != 0 && c.client.now()+int64(d.RetryAfter) > deadline {
			c.client.tel.waited(ctx, c, &d, n, start, nil)
			return fmt.Errorf("%w: the next try can succeed in %s", ErrWaitTooLong, d.RetryAfter)
		}
	}
	w, err := a.queue.join(n, deadline)
	if err != nil {
		c.client.tel.waited(ctx, c, &Decision{}, n, start, nil)
		return err
	}
	select {
	case err = <-w.done:
	case <-ctx.Done():
		if a.queue.leave(w) {
			err = context.Cause(ctx)
		} else {
			err = <-w.done // it was served just now
		}
	}
	d := Decision{Allowed: err == nil, Granted: n}
	if err == nil && w.delay > 0 {
		err = c.sleepOut(ctx, w.served, w.delay, deadline)
	}
	c.client.tel.waited(ctx, c, &d, n, start, err)
	return err
}

// sleepOut sleeps until what was granted may act. If that is after the caller's deadline, or ctx ends
// before, the permits are given back.
func (c *core) sleepOut(ctx context.Context, d Decision, delay time.Duration, deadline int64) error {
	if delay == 0 {
		return nil
	}
	if deadline != 0 && c.client.now()+int64(delay) > deadline {
		c.giveBack(d)
		return fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, delay)
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-ctx.Done():
		c.giveBack(d)
		return context.Cause(ctx)
	case <-c.client.ctx.Done():
		return ErrClosed
	}
}

func (c *core) deadline(ctx context.Context) int64 {
	at, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, c.client.now()+int64(time.Until(at)))
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.Len() == 0
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.Len()
}

// limit is the limit in force, as far as this process has heard.
func (q *queue) limit() Limit {
	if t := q.account.core.table.Load(); t != nil {
		return t.limit
	}
	return q.account.core.declaration()
}

// join puts a caller at the end of the line, unless those before it make it
// certain that its deadline passes first: no window admits more than the limit.
func (q *queue) join(n, deadline int64) (*waiter, error) {
	limit := q.limit()
	q.mu.Lock()
	defer q.mu.Unlock()
	if deadline != 0 && !q.inTime(q.wanted+n, deadline, limit) {
		return nil, fmt.Errorf("%w: %d permits are wanted before", ErrWaitTooLong, q.wanted)
	}
	w := &waiter{n: n, deadline: deadline, done: make(chan error, 1)}
	w.place = q.line.PushBack(w)
	q.wanted += n
	if !q.pumping {
		q.pumping = true
		if q.poke == nil {
			q.poke = make(chan struct{}, 1)
		}
		q.account.core.client.spawn(q.pump)
		if q.account.core.client.closed.Load() {
			q.dismiss(w, ErrClosed)
		}
	}
	return w, nil
}

// inTime reports whether the first so many permits that the line wants may come
// before the deadline: from when the head can be served, no window admits more
// than the limit.
func (q *queue) inTime(permits, deadline int64, limit Limit) bool {
	left := deadline - max(q.account.core.client.now(), q.notBefore)
	return left >= 0 && int64(limit.soonest(permits)) <= left
}

// leave takes a caller out of the line and reports false if it was served.
func (q *queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return false
	}
	atHead := q.line.Front() == w.place
	q.remove(w)
	if atHead {
		q.wakeLocked() // the next one may want less
	}
	return true
}

func (q *queue) remove(w *waiter) {
	q.line.Remove(w.place)
	w.place = nil
	q.wanted -= w.n
}

func (q *queue) dismiss(w *waiter, err error) {
	q.remove(w)
	w.done <- err
}

// wake has the head of the line look again at once.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	q.notBefore, q.woken = 0, true
	select {
	case q.poke <- struct{}{}:
	default: // nobody pumps, or it has been poked already
	}
}

// pump serves the line until it is empty.
func (q *queue) pump(ctx context.Context) {
	c := q.account.core
	nap := time.NewTimer(time.Hour)
	defer nap.Stop()
	futile := 0
	for {
		t := c.current()
		n, singles, ok := q.head(t)
		if !ok {
			return
		}
		_, upsets := q.first(n)
		d, err := q.ask(ctx, t, n, singles)
		if err != nil {
			if ctx.Err() != nil {
				err = ErrClosed
			}
			q.failAll(err)
			continue
		}
		if d.Granted > 0 {
			futile = 0
			q.hand(d, singles)
			q.note(d.Granted < n)
			continue
		}
		futile++
		q.note(true)
		q.dismissHopeless(c.client.now() + int64(d.RetryAfter))
		if !singles && t != nil && t.limit.Scope == Global && t.limit.Algorithm != LeakyBucket && q.bookAhead(ctx, t, n, upsets) {
			futile = 0
			continue
		}
		window := c.declaration().Per
		if t != nil {
			window = t.limit.Per
		}
		nap.Reset(min(d.RetryAfter, max(pumpNap, window/16)) + stagger(futile, window))
		select {
		case <-nap.C:
		case <-q.poke:
			futile = 0
			q.account.doubt(t) // what was heard may be older than what woke us
		case <-ctx.Done():
		}
	}
}

// note remembers what the line is short of, for the shards to know who wants more
// than it gets.
func (q *queue) note(short bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if short {
		q.unserved.Store(q.wanted)
	} else {
		q.unserved.Store(0)
	}
}

func (q *queue) ask(ctx context.Context, t *table, n int64, singles bool) (d Decision, err error) {
	if ctx.Err() != nil {
		return d, ErrClosed
	}
	now := q.account.core.client.now()
	switch {
	case t == nil:
		return q.account.outage(nil, n, singles, errNoRecord)
	case singles:
		err = q.account.some(ctx, t, n, now, &d)
	default:
		err = q.account.whole(ctx, t, n, now, &d)
	}
	return d, err
}

// stagger spreads the processes that were woken by the same release and came
// too late for it, more widely the more often that happened in a row.
func stagger(futile int, window time.Duration) time.Duration {
	if futile < 2 {
		return 0
	}
	return rand.N(min(window/64<<min(futile-2, 3), 100*time.Millisecond) + 1)
}

// head is what the line wants next: one permit each for the callers at its head
// that want one, else what the first one wants, all at once. A line that is
// empty ends the pump.
func (q *queue) head(t *table) (n int64, singles, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = false
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		w := e.Value.(*waiter)
		if t == nil || w.n <= t.limit.most() {
			break
		}
		q.dismiss(w, fmt.Errorf("%w: %d asked for, the limit is now %d", ErrExceedsLimit, w.n, t.limit.most()))
	}
	e := q.line.Front()
	if e == nil {
		q.unserved.Store(0)
		q.pumping = false
		return 0, false, false
	}
	if first := e.Value.(*waiter); first.n > 1 {
		return first.n, false, true
	}
	for ; e != nil && e.Value.(*waiter).n == 1; e = e.Next() {
		if n++; t != nil && t.limit.Algorithm == LeakyBucket {
			break // each has a turn of its own
		}
	}
	return n, true, true
}

// hand gives the permits to the head of the line, and back what nobody wants
// any more because callers have left meanwhile.
func (q *queue) hand(d Decision, singles bool) {
	left := d.Granted
	q.mu.Lock()
	q.notBefore = 0
	for e := q.line.Front(); e != nil && left > 0; e = q.line.Front() {
		w := e.Value.(*waiter)
		if w.n > left || singles && w.n != 1 {
			break
		}
		left -= w.n
		if w.delay = d.Delay; w.delay > 0 {
			w.served = d
		}
		q.dismiss(w, nil)
	}
	q.mu.Unlock()
	if left > 0 {
		q.account.core.giveBack(d.last(left))
	}
}

// last is the part of a decision that makes up its last n permits.
func (d *Decision) last(n int64) (rest Decision) {
	parts := d.parts()
	for i := len(parts) - 1; i >= 0 && n > 0; i-- {
		p := parts[i]
		p.n = min(p.n, n)
		n -= p.n
		rest.addPart(p, 0)
	}
	rest.engine = d.engine
	return rest
}

// dismissHopeless ends the waiting of those whose deadline comes before their
// permits can, given that the head was denied until next. If that is the head
// itself, the one behind it asks next: it may want less.
func (q *queue) dismissHopeless(next int64) {
	limit := q.limit()
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
			ErrWaitTooLong, time.Duration(next-q.account.core.client.now()), wanted))
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
