package shardlimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
)

// reserveAhead reserves what the head of the line wants: n permits, more than one, that are not
// there together. Else callers elsewhere that want less would take each permit as it comes back,
// and the head might wait for ever. It returns when the head was served, has left, or should ask
// again; false if nothing could be reserved, and then until when that will be so because its part
// of the limit is used up or others have booked so much (0: for another reason). restarts is what
// first told before the head was denied.
func (q *queue) reserveAhead(ctx context.Context, r *routes, n int64, restarts uint64) (done bool, until int64) {
	c := q.member.core
	w, _ := q.first(n)
	if w == nil {
		return true, 0
	}
	d, due, err := q.member.book(ctx, r,
		bookCall{n: n, deadline: w.deadline, since: c.client.now(), windows: register.BookedAhead})
	if err != nil {
		if paced := (*pacedError)(nil); errors.As(err, &paced) {
			return false, paced.until
		}
		if full := (*fullError)(nil); errors.As(err, &full) {
			return false, full.until
		}
		return false, 0
	}
	look := max(pumpNap, r.limit.Per/16)
	nap := time.NewTimer(time.Hour)
	defer nap.Stop()
	for {
		nap.Reset(min(time.Duration(max(0, due-c.client.now())), look))
		poked := false
		select {
		case <-nap.C:
		case <-q.poke:
			poked = true
		case <-ctx.Done():
		}
		head, changes := q.first(n)
		switch {
		case head != w || ctx.Err() != nil:
			c.giveBackDue(d, due)
			return true, 0
		case c.client.now() >= due:
			q.hand(d, false)
			return true, 0
		}
		if poked {
			q.member.forgetDenials(r)
		}
		// A reset or refund may have made room for all of them at once.
		latest, _ := c.inUse(ctx)
		now, err := q.ask(ctx, latest, n, 0, false)
		if err == nil && now.Granted > 0 {
			c.giveBack(d)
			q.hand(now, false)
			return true, 0
		}
		if changes != restarts { // the reservation may be forgotten in part, or there is room for it sooner
			c.giveBack(d)
			return true, 0
		}
	}
}

// first returns the head of the line if it wants n permits, and how often the shards were
// restarted.
func (q *queue) first(n int64) (*waiter, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.line.Front()
	if e == nil || e.Value.(*waiter).n != n {
		return nil, q.restarts
	}
	return e.Value.(*waiter), q.restarts
}

// restart has the head of the line look again after usage was forgotten or the limit changed.
func (q *queue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.restarts++
	q.wakeLocked()
}
