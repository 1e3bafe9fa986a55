package shardlimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// mostTurns is how many turns of a leaky bucket the pump asks for at once.
const mostTurns = 256

// turnDue is a permit of a leaky bucket, or why there is none.
type turnDue struct {
	Decision
	due int64 // when it may act, on the client's clock
	err error
}

// waitOrder is turns in the order in which they are due.
type waitOrder []turnDue

func (r waitOrder) insert(t turnDue) waitOrder {
	i, _ := slices.BinarySearchFunc(r, t, func(a, b turnDue) int { return cmp.Compare(a.due, b.due) })
	return slices.Insert(r, i, t)
}

// dueBy is how many of the turns are due by an instant.
func (r waitOrder) dueBy(at int64) int {
	for i := range r {
		if r[i].due > at {
			return i
		}
	}
	return len(r)
}

// serveTurns asks for n turns of a leaky bucket at once, and gives them to the head of the line in
// order of arrival: when all have been heard of, so that the first gets the earliest, but none
// later than it is due. The Decision tells how many there were, or if there were none when to ask
// again.
func (q *queue) serveTurns(ctx context.Context, r *routes, n int64) (d Decision, err error) {
	c := q.member.core
	answers := q.askTurns(ctx, r, n)
	var order, unwanted waitOrder
	first := time.NewTimer(time.Hour)
	defer first.Stop()
	granted := int64(0)
	hand := func(k int) {
		unwanted = append(unwanted, q.handTurns(order[:k])...)
		order = order[k:]
	}
	for left := n; left > 0; {
		select {
		case a := <-answers:
			left--
			switch {
			case a.err != nil:
				err = a.err
			case a.Granted > 0:
				granted++
				order = order.insert(a)
			case d.RetryAfter == 0 || a.RetryAfter < d.RetryAfter:
				d = a.Decision
			}
		case <-first.C:
			hand(order.dueBy(c.client.now()))
		}
		if len(order) > 0 {
			first.Reset(time.Duration(order[0].due - c.client.now()))
		}
	}
	hand(len(order))
	for i := len(unwanted) - 1; i >= 0; i-- { // a bucket takes back only what it gave last
		c.giveBack(unwanted[i].Decision)
	}
	d.Granted, q.reach = granted, 2*granted
	if granted > 0 {
		err = nil
	}
	return d, err
}

// askTurns asks for n single permits, as so many callers of Allow would: each hears of its own
// turn. They share script calls, unless all who wait have deadlines that come before the queue is
// empty: inTime books each of those turns by itself. There are n answers.
func (q *queue) askTurns(ctx context.Context, r *routes, n int64) <-chan turnDue {
	answers, by := make(chan turnDue, n), q.patience(n)
	for range n {
		go func() { // ends with the call
			d, err := q.ask(ctx, r, 1, by, false)
			answers <- turnDue{d, q.member.core.due(r, &d), err}
		}()
	}
	return answers
}

// due is when what was granted may act: Delay after the reply came.
func (c *core) due(r *routes, d *Decision) int64 {
	replied := c.client.now()
	if r != nil && d.source == telemetry.Redis {
		replied = d.until - r.memory
	}
	return replied + int64(d.Delay)
}

// handTurns gives the turns to the head of the line and returns those that nobody wants any more,
// because callers have left meanwhile. Who cannot wait until its turn leaves it to those behind.
func (q *queue) handTurns(r waitOrder) waitOrder {
	now := q.member.core.client.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notBefore = 0
	for e := q.line.Front(); e != nil && len(r) > 0; e = q.line.Front() {
		w := e.Value.(*waiter)
		if w.n != 1 {
			break
		}
		if w.deadline != 0 && r[0].due > max(w.deadline, now) {
			q.dismiss(w, fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, time.Duration(r[0].due-now)))
			continue
		}
		w.due, w.served = r[0].due, r[0].Decision
		q.dismiss(w, nil)
		r = r[1:]
	}
	return r
}
