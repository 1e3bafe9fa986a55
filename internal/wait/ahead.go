package wait

import (
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// bookHead reserves what the head of the line wants: n permits, more than one, that are not there
// together, where such can be reserved. Else callers elsewhere that want less would take each
// permit as it comes back, and the head might wait for ever. It returns when the head was served,
// has left, or should ask again; false if nothing could be reserved, and then when to try again:
// after retry, or when others have reserved no longer as far ahead as one may. restarts is what
// first told before the head was denied.
func (q *pump) bookHead(r *limit.Routes, n int64, singles bool, restarts uint64,
	retry time.Duration) (served bool, again time.Duration) {
	if singles || r == nil || r.Limit.Scope != limit.Global || r.Limit.Algorithm == limit.LeakyBucket {
		return false, retry
	}
	c := q.member.Target
	w, _ := q.first(n)
	if w == nil {
		return true, 0
	}
	d, due, err := q.member.Book(q.ctx, r, call.Booking{N: n, Deadline: w.Deadline, Since: c.Process.Now()})
	if far := (*limit.TooFarAheadError)(nil); errors.As(err, &far) {
		if ahead := r.Limit.Ahead(); far.Delay > ahead {
			return false, far.Delay - ahead
		}
		// It may book long before a call finds room. A shard that keeps all the bookings it can may
		// have the permits at once.
		return false, max(call.LeastPause, far.Delay)
	}
	if err != nil {
		return false, retry
	}
	for {
		long := min(time.Duration(due-c.Process.Now()), max(PumpNap, longestNap(r.Limit.Per)))
		if q.early(r) {
			long = min(long, shortNap(r))
		}
		q.nap(long)
		head, changes := q.first(n)
		switch {
		case head != w || q.ctx.Err() != nil || changes != restarts:
			// It left, or what is reserved may be forgotten in part, or come sooner.
			c.GiveBackAll(d, true)
			q.member.ForgetDenials(r)
			return true, 0
		case c.Process.Now() >= due:
			q.hand(d, false)
			return true, 0
		default: // what came back, or was forgotten elsewhere, may be enough beside what is reserved
			var now call.Decision
			q.member.ForgetDenials(r)
			if err := q.member.AtOnce(q.ctx, r, n, false, c.Process.Now(), 0, &now); err == nil && now.Allowed {
				c.GiveBackAll(d, false)
				q.hand(now, false)
				return true, 0
			}
		}
	}
}

// first returns the head of the line if it wants n permits, and how often the shards were
// restarted.
func (q *queue) first(n int64) (*waiter, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.line.Front()
	if e == nil || e.Value.(*waiter).N != n {
		return nil, q.restarts
	}
	return e.Value.(*waiter), q.restarts
}
