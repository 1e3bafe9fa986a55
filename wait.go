package shardlimit

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// queue is the line of callers that wait for permits of one limit in this
// process, for one participant: first come, first served. One goroutine, which exists only while
// somebody waits, asks for permits on behalf of the head.
type queue struct {
	member *member

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
	restarts  uint64 // how often usage was forgotten or the limit changed
}

// waiter is one blocked call.
type waiter struct {
	n        int64
	deadline int64      // on the client's clock; 0: none
	done     chan error // one value
	due      int64      // when what it was served may act, on the client's clock; 0: at once
	served   Decision   // what that is
	place    *list.Element
}

// wait is Acquire.
func (m *member) wait(ctx context.Context, n int64) (d Decision, err error) {
	c := m.core
	start := c.client.now()
	r, _, err := m.admit(ctx, n, false)
	if err != nil {
		return Decision{}, err
	}
	deadline := c.deadline(ctx)
	if m.queue().empty() && c.mode(r) != Closed {
		err = m.atOnce(ctx, r, n, false, start, deadline, &d)
		if err == nil && d.Allowed {
			err = c.sleepOut(ctx, &d, d.Delay, deadline)
		}
		if err != nil && !c.waitsOn(err) || d.Allowed {
			c.waited(ctx, &d, n, start, err)
			return d.unless(err), err
		}
		if err == nil && deadline != 0 && c.client.now()+int64(d.RetryAfter) > deadline {
			c.waited(ctx, &d, n, start, nil)
			return d, fmt.Errorf("%w: the next try can succeed in %s", ErrWaitTooLong, d.RetryAfter)
		}
	}
	return m.waitInLine(ctx, r, n, deadline, start)
}

// waitInLine waits behind those who came before.
func (m *member) waitInLine(ctx context.Context, r *routes, n, deadline, start int64) (d Decision, err error) {
	c := m.core
	w, err := m.queue().join(n, deadline)
	if err != nil {
		c.waited(ctx, &d, n, start, nil)
		return m.queue().hopeless(r, err), err
	}
	select {
	case err = <-w.done:
	case <-ctx.Done():
		if m.queue().leave(w) {
			err = clock.Ended(ctx)
		} else {
			err = <-w.done // it was served just now
		}
	}
	if err == nil {
		d = w.served
		err = c.sleepOut(ctx, &d, time.Duration(max(0, w.due-c.client.now())), deadline)
	}
	c.waited(ctx, &d, n, start, err)
	if errors.Is(err, ErrWaitTooLong) {
		return m.queue().hopeless(r, err), err
	}
	return d.unless(err), err
}

// unless is the decision, or none with an error.
func (d *Decision) unless(err error) Decision {
	if err != nil {
		return Decision{}
	}
	return *d
}

// hopeless is the denial that goes with the error of a caller that cannot be served in time. It
// does not say when to try again if the line does not know.
func (q *queue) hopeless(r *routes, err error) (d Decision) {
	c := q.member.core
	if r == nil || !errors.Is(err, ErrWaitTooLong) {
		return d
	}
	q.mu.Lock()
	next := q.notBefore
	q.mu.Unlock()
	now := c.client.now()
	c.deny(r, now, time.Duration(next-now), &d)
	if next <= now {
		d.RetryAfter = 0
	}
	return d
}

// waitsOn reports whether callers wait on after a call that ended so. That this process has too
// much to do passes by itself.
func (c *core) waitsOn(err error) bool {
	return errors.Is(err, ErrOverloaded) || c.client.cfg.OnOutage == WaitOut && errors.Is(err, ErrUnavailable)
}

// sleepOut sleeps until what was granted may act. If that is after the caller's deadline, or ctx
// ends before, the permits are given back.
func (c *core) sleepOut(ctx context.Context, d *Decision, delay time.Duration, deadline int64) error {
	if delay == 0 {
		return nil
	}
	now := c.client.now()
	if deadline != 0 && now+int64(delay) > deadline {
		c.handBack(ctx, *d, now)
		return fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, delay)
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		d.Delay, d.ResetAfter = 0, max(0, d.ResetAfter-delay)
		return nil
	case <-ctx.Done():
		c.handBack(ctx, *d, now) // in the background
		return clock.Ended(ctx)
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

// join puts a caller at the end of the line, unless those before it make it
// certain that its deadline passes first: no window admits more than the limit.
func (q *queue) join(n, deadline int64) (*waiter, error) {
	limit := q.member.core.limitNow()
	q.mu.Lock()
	defer q.mu.Unlock()
	if deadline != 0 && !q.inTime(q.wanted+n, deadline, limit) {
		return nil, fmt.Errorf("%w: %d permits are wanted before", ErrWaitTooLong, q.wanted)
	}
	w := &waiter{n: n, deadline: deadline, done: make(chan error, 1)}
	w.place = q.line.PushBack(w)
	q.wanted += n
	if !q.pumping {
		if q.poke == nil {
			q.poke = make(chan struct{}, 1)
		}
		held := q.member.core.hold()
		q.pumping = held.client.spawn(func(ctx context.Context) {
			defer held.release()
			q.pump(ctx)
		})
		if !q.pumping {
			held.release()
			q.dismiss(w, ErrClosed)
		}
	}
	return w, nil
}

// inTime reports whether the first so many permits that the line wants may come
// before the deadline: from when the head can be served, no window admits more
// than the limit.
func (q *queue) inTime(permits, deadline int64, limit Limit) bool {
	left := deadline - max(q.member.core.client.now(), q.notBefore)
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
