package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
)

// lateError is that permits come too late for the call, or too far ahead to be booked.
type lateError struct {
	in  time.Duration // so long does it take until they come
	why error         // with text, for the caller
}

func (e *lateError) Error() string { return e.why.Error() }
func (e *lateError) Unwrap() error { return e.why }

// inTime gets n permits or none, as exactly does. Under LeakyBucket their turn comes by an instant,
// else the error is ErrWaitTooLong, and d tells when that turn comes. by is on the client's clock;
// 0: whenever. What no single shard can grant is granted whenever its turn comes, and so is any
// turn while a layout cannot be confirmed. For who waits as long as the queue can be no turn is too
// late.
func (m *member) inTime(ctx context.Context, r *routes, n, since, by int64, d *Decision) error {
	if !m.takesTurn(r, n, since, by) {
		return m.exactly(ctx, r, n, since, d)
	}
	r, err := m.core.confirmed(ctx, r, since)
	if m.byMode(r, n, false, d) {
		return nil
	}
	if err != nil || !m.takesTurn(r, n, since, by) {
		return m.exactly(ctx, r, n, since, d)
	}
	return m.turnBy(ctx, r, bookCall{n: n, since: since, deadline: by}, d)
}

// takesTurn reports whether a shard is asked for a turn that comes by an instant.
func (m *member) takesTurn(r *routes, n, since, by int64) bool {
	l := &r.limit
	return by != 0 && l.Algorithm == LeakyBucket && l.Scope == Global && m.core.mode(r) == Enforced &&
		float64(by-since) <= float64(l.most())/float64(l.Permits)*float64(l.Per) && m.view(r).fits(n)
}

// fits reports whether a single shard can grant n permits.
func (v *view) fits(n int64) bool {
	for _, s := range v.seats {
		if s.Lane.Most() >= n {
			return true
		}
	}
	return false
}

// turnBy gets a turn that comes by the deadline of the call. A turn that was taken and given back
// is a hole in the queue if others came behind it, so a shard gives none that is too late. The
// shards are asked one after the other, that with the shortest queue first.
func (m *member) turnBy(ctx context.Context, r *routes, call bookCall, d *Decision) error {
	c, v := m.core, m.view(r)
	seen := attempt{now: max(call.since, c.client.now()), retry: lane.UnknownRetry}
	call.deadline = max(call.deadline, seen.now)
	first := int64(0) // when the first of the turns comes that are too late; 0: there is none
	for time.Duration(seen.now-call.since) < c.client.cfg.CallTimeout {
		i, turn := v.nextTurn(seen.now, call.n, &seen.done)
		if i < 0 {
			break
		}
		if turn > call.deadline {
			c.Refresh() // nothing is asked that would tell of a change
			first = earlier(first, turn)
			break
		}
		seen.done.add(i)
		s := v.seats[i]
		if s.Lane.Shut(seen.now) { // its queue is as long as it may be
			seen.reached = true
			seen.told(max(0, time.Duration(s.Lane.FreeAt()-seen.now)))
			continue
		}
		part, err := c.bookPart(ctx, s, call, r.limit.ahead())
		if err == nil {
			c.takeTurn(r, part, d)
			return nil
		}
		seen.now = c.client.now()
		if late := (*lateError)(nil); errors.As(err, &late) {
			seen.reached, first = true, earlier(first, seen.now+int64(late.in))
		} else if err := seen.untaken(ctx, c, s, &call, err); err != nil {
			return err
		}
		if at := s.Lane.ResetAt(); at > call.deadline && s.Lane.Shut(seen.now) {
			first = earlier(first, at) // whoever comes when there is room again is behind this
		}
	}
	switch {
	case seen.retry != lane.UnknownRetry && (first == 0 || seen.now+int64(seen.retry) <= call.deadline):
		c.deny(r, seen.now, seen.retry, d)
		return nil
	case first == 0:
		return v.denied(&seen, call.n, call.since, false, d)
	}
	in := time.Duration(first - seen.now)
	c.deny(r, seen.now, in, d)
	return &lateError{in, fmt.Errorf("%w: its turn comes in %s", ErrWaitTooLong, in)}
}

// untaken takes in why a shard gave no turn, though one may come in time. The error ends the call.
func (a *attempt) untaken(ctx context.Context, c *core, s *lane.Seat, call *bookCall, err error) error {
	if e := c.gone(ctx, err); e != nil {
		return e
	}
	if dead := (*partError)(nil); errors.As(err, &dead) {
		err = dead.error
	}
	a.failed(s, call.since, err)
	return nil
}

// takeTurn fills in that a shard gave a turn.
func (c *core) takeTurn(r *routes, part booked, d *Decision) {
	got, due := c.booking(r, []booked{part})
	got.Delay = time.Duration(max(0, due-c.client.now()))
	*d = got
}

// nextTurn is the shard whose next turn comes first, as far as was heard lately, and when that is;
// -1 if none is left that can be asked.
func (v *view) nextTurn(now, n int64, done *tried) (best int, turn int64) {
	best = -1
	heard := now - int64(lane.ShutCap(v.limit.Per))
	for i, s := range v.seats {
		if done.has(i) || s.Paced(now) || s.Lane.Most() < n || !s.Lane.Usable(now) {
			continue
		}
		at := now
		if s.Lane.Answered(heard) {
			at = max(now, s.Lane.ResetAt())
		}
		if best < 0 || at < turn {
			best, turn = i, at
		}
	}
	return best, turn
}

// earlier is the earlier of two instants; 0 is none.
func earlier(a, b int64) int64 { return min(cmp.Or(a, b), cmp.Or(b, a)) }

// turnNow is decide for who takes no turn but one that has come, all or nothing.
func (m *member) turnNow(ctx context.Context, n int64, d *Decision) error {
	c := m.core
	start := c.client.now()
	r, _, err := m.admit(ctx, n, false)
	if err != nil {
		return err
	}
	if err = m.atOnce(ctx, r, n, start, start, d); errors.Is(err, ErrWaitTooLong) {
		err = nil
	}
	if err == nil && d.Delay > 0 { // of several shards, or while none answers
		c.handBack(ctx, *d, start)
		*d = Decision{Limit: d.Limit, Degraded: d.Degraded, RetryAfter: d.Delay, mode: d.mode, source: d.source,
			core: c}
	}
	if err == nil && d.Granted < n {
		m.noteUnmet(d, n)
	}
	c.decided(ctx, d, n, start, err)
	return err
}
