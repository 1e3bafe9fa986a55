// Package wait is the lines of callers that wait for permits, and who asks for them.
package wait

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// queue is the line of callers that wait for permits of one limit in this
// process, for one participant: first come, first served. One goroutine, which exists only while
// somebody waits, asks for permits on behalf of the head.
type queue struct {
	member *call.Member

	mu      sync.Mutex
	line    list.List    // of *waiter, in the order in which they came
	wanted  int64        // by all in the line
	oldest  atomic.Int64 // when the head came; 0: there is none
	pumping bool
	patient bool // somebody in it is, see Place
	poke    chan struct{}

	// What the head was told when it was last denied: that it cannot be served
	// before this instant. 0: nothing is known. It no longer holds when the
	// queue is woken, because then there is another head or more to give.
	notBefore int64
	woken     bool   // since the head last asked
	restarts  uint64 // how often usage was forgotten or the limit changed
}

// waiter is one blocked call.
type waiter struct {
	Place
	done   chan error    // one value
	due    int64         // when what it was served may act, on the client's clock; 0: at once
	served call.Decision // what that is
	in     *list.Element // of the line; nil: it is in none
}

// lineOf returns the member's line of waiters.
func lineOf(m *call.Member) *queue {
	return m.Line(func() call.Line { return &queue{member: m} }).(*queue)
}

// Acquire blocks until n permits of a limit were granted together. If it is patient it waits until
// ctx ends, however late permits are to come, and takes it that they come back early: when others
// release theirs nobody knows.
func Acquire(ctx context.Context, l *call.Limiter, n int64, patient bool) (d call.Decision, err error) {
	m := l.Hold()
	defer m.Target.Release()
	start := m.Target.Process.Now()
	r, _, err := m.Admit(ctx, n, false)
	if err != nil {
		return call.Decision{}, err
	}
	p := Place{N: n, Came: start, Patient: patient}
	if !patient {
		p.Deadline = m.Target.Process.Deadline(ctx)
	}
	err = acquire(ctx, m, r, p, &d)
	m.Target.Waited(ctx, &d, n, start, err)
	if err != nil && !errors.Is(err, limit.ErrWaitTooLong) {
		d = call.Decision{}
	}
	return d, err
}

func acquire(ctx context.Context, m *call.Member, r *limit.Routes, p Place, d *call.Decision) error {
	c, q, deadline := m.Target, lineOf(m), p.Deadline
	courtesy := call.CourtesyOf(c)
	if q.Len() == 0 && c.LimitOf(r).Mode != limit.Closed && (!p.Patient && !call.Early(r) || courtesy.Part(r) > 0) {
		err := m.AtOnce(ctx, r, p.N, false, p.Came, deadline, d)
		courtesy.Got(r, d)
		switch {
		case err == nil && d.Allowed:
			if err = sleepOut(ctx, c, d, deadline); err != nil {
				*d = call.Decision{}
			}
			return err
		case err == nil && deadline != 0 && !call.Away(r) && c.Process.Now()+int64(d.RetryAfter) > deadline:
			return fmt.Errorf("%w: the next try can succeed in %s", limit.ErrWaitTooLong, d.RetryAfter)
		case err != nil && !c.Process.WaitsOn(err):
			return err
		}
	}
	err := Stand(ctx, m, r, p, d)
	if err != nil {
		return err
	}
	if err = sleepOut(ctx, c, d, deadline); err != nil {
		*d = q.hopeless(r, err)
	}
	return err
}

// Place is that of a caller in a line.
type Place struct {
	N        int64 // permits that it wants; 0: nothing yet, see Keep
	Deadline int64 // on the client's clock; 0: none
	Came     int64 // likewise
	Patient  bool  // permits are taken to come back early

	// Ready reports whether to serve it; nil: always. Else Stand returns ErrElsewhere.
	Ready func() bool
}

// ErrElsewhere ends the waiting of a caller who is not ready to be served.
var ErrElsewhere = errors.New("it waits elsewhere first")

// Stand waits in a member's line, behind those who came before, until it is served. The permits may
// act after the Delay of the decision.
func Stand(ctx context.Context, m *call.Member, r *limit.Routes, p Place, d *call.Decision) error {
	q := lineOf(m)
	w, err := q.join(p)
	if err == nil {
		select {
		case err = <-w.done:
		case <-ctx.Done():
			if q.leave(w) {
				err = clock.Ended(ctx)
			} else {
				err = <-w.done // it was served just now
			}
		}
	}
	if err != nil {
		*d = q.hopeless(r, err)
		return err
	}
	*d = w.served
	d.Delay = time.Duration(max(0, w.due-m.Target.Process.Now()))
	return nil
}

// Keep keeps the place that who came then has in a member's line: nobody behind it is served until
// it is given up.
func Keep(m *call.Member, came int64) (giveUp func()) {
	q := lineOf(m)
	w, _ := q.join(Place{Came: came})
	return func() { q.leave(w) }
}

// Behind reports whether somebody waits in a member's line who came before.
func Behind(m *call.Member, came int64) bool {
	oldest := lineOf(m).oldest.Load()
	return oldest != 0 && oldest < came
}

// hopeless returns the denial that goes with the error of a caller that cannot be served in time.
// It does not say when to try again if the line does not know.
func (q *queue) hopeless(r *limit.Routes, err error) (d call.Decision) {
	c := q.member.Target
	if r == nil || !errors.Is(err, limit.ErrWaitTooLong) {
		return d
	}
	next, now := q.NotBefore(), c.Process.Now()
	c.Deny(r, now, time.Duration(next-now), q.member.Why(r, 1), &d)
	if next <= now {
		d.RetryAfter = 0
	}
	return d
}

// sleepOut sleeps until what was granted may act. If that is after the caller's deadline, or ctx
// ends before, the permits are given back.
func sleepOut(ctx context.Context, c *call.Target, d *call.Decision, deadline int64) error {
	delay := d.Delay
	if delay == 0 {
		return nil
	}
	now := c.Process.Now()
	if deadline != 0 && now+int64(delay) > deadline {
		c.HandBack(ctx, *d, now, false)
		return fmt.Errorf("%w: its turn comes in %s", limit.ErrWaitTooLong, delay)
	}
	select {
	case <-time.After(delay):
		d.Delay, d.ResetAfter = 0, max(0, d.ResetAfter-delay)
		return nil
	case <-ctx.Done():
		c.HandBack(ctx, *d, now, false) // in the background
		return clock.Ended(ctx)
	case <-c.Process.Context.Done():
		return limit.ErrClosed
	}
}

// Len returns the number of callers in the line.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.Len()
}

// NotBefore returns when the head of the line can be served at the earliest, 0 if that is not
// known.
func (q *queue) NotBefore() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.notBefore
}

// inFront tells of those who are served before.
func inFront(permits int64) string {
	if permits == 0 {
		return ""
	}
	return fmt.Sprintf(": %d permits are wanted before", permits)
}

// join puts a caller in line behind those who came before, unless these make it certain that its
// deadline passes first: no window admits more than the limit.
func (q *queue) join(p Place) (*waiter, error) {
	of := q.member.Target.LimitNow()
	q.mu.Lock()
	defer q.mu.Unlock()
	before, wanted := q.line.Back(), q.wanted+p.N
	for before != nil && before.Value.(*waiter).Came > p.Came {
		wanted -= before.Value.(*waiter).N
		before = before.Prev()
	}
	if p.Deadline != 0 && !q.inTime(wanted, p.Deadline, of) {
		return nil, fmt.Errorf("%w%s", limit.ErrWaitTooLong, inFront(wanted-p.N))
	}
	w := &waiter{Place: p, done: make(chan error, 1)}
	q.wanted, q.patient = q.wanted+p.N, q.patient || p.Patient
	switch first := q.line.Front(); {
	case before != nil:
		w.in = q.line.InsertAfter(w, before)
	case first != nil && first.Value.(*waiter).N != p.N:
		q.wakeLocked() // for the head wants something else
		fallthrough
	default:
		w.in = q.line.PushFront(w)
		q.oldest.Store(p.Came)
	}
	if !q.pumping {
		if q.poke == nil {
			q.poke = make(chan struct{}, 1)
		}
		held := q.member.Target.Hold()
		q.pumping = held.Process.Spawn(func(ctx context.Context) {
			defer held.Release()
			(&pump{queue: q, ctx: ctx}).run()
		})
		if !q.pumping {
			held.Release()
			q.dismiss(w, limit.ErrClosed)
			return w, nil
		}
		held.Members.Waits(q)
	}
	return w, nil
}

// inTime reports whether the first so many permits that the line wants may come
// before the deadline: from when the head can be served, no window admits more
// than the limit.
func (q *queue) inTime(permits, deadline int64, limit limit.Limit) bool {
	left := deadline - max(q.member.Target.Process.Now(), q.notBefore)
	return left >= 0 && int64(limit.Soonest(permits)) <= left
}

// leave takes a caller out of the line and reports false if it was served.
func (q *queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.in == nil {
		return false
	}
	atHead := q.line.Front() == w.in
	q.remove(w)
	if atHead {
		q.wakeLocked() // the next one may want less
	}
	return true
}

func (q *queue) remove(w *waiter) {
	q.line.Remove(w.in)
	w.in = nil
	q.wanted -= w.N
	q.oldest.Store(0)
	if first := q.line.Front(); first != nil {
		q.oldest.Store(first.Value.(*waiter).Came)
	}
}

func (q *queue) dismiss(w *waiter, err error) {
	q.remove(w)
	w.done <- err
}

// Wake has the head of the line look again at once, and with anew begin anew.
func (q *queue) Wake(anew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if anew {
		q.restarts++
	}
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	q.notBefore, q.woken = 0, true
	select {
	case q.poke <- struct{}{}:
	default: // nobody pumps, or it has been poked already
	}
}
