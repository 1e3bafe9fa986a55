package shardlimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// watchGrace is how much longer than its context a script call may take before
// its asks are answered without it. Redis clients can overrun a context, for
// instance while they wait for somebody else's attempt to connect.
const watchGrace = 5 * time.Millisecond

// flight is one script call on behalf of a batch of asks. A lane uses the same
// flight again and again, except after the watchdog has given one up: then the
// late reply still belongs to the old one.
type flight struct {
	lane   *lane
	number uint64
	asks   []*ask         // in order of arrival; they belong to whoever sets over
	groups []script.Group // the same, as the script wants them
	grants []int64
	req    script.TakeRequest
	ctx    expiry
	watch  *time.Timer
	sent   atomic.Bool
	over   atomic.Bool // answered, or given up
}

func newFlight(l *lane) *flight {
	f := &flight{lane: l}
	f.ctx.done = make(chan struct{})
	f.watch = time.AfterFunc(time.Hour, f.ring)
	f.watch.Stop()
	return f
}

// run sends the batch and hands out the answers. It returns when the call has
// ended, and reports false if its time was up: the flight is not to be used again.
func (f *flight) run(number uint64, batch []*ask) bool {
	c := f.lane.core.client
	now := c.now()
	f.number = number
	oldest := f.board(now, batch)
	if len(f.asks) == 0 {
		return true
	}
	budget := c.cfg.CallTimeout - time.Duration(now-oldest)
	if f.lane.terms.Load().split {
		budget = min(budget, c.cfg.CallTimeout/2)
	}
	f.sent.Store(false)
	f.over.Store(false)
	f.ctx.at = c.base.Add(time.Duration(now) + budget)
	f.watch.Reset(budget)
	if c.closed.Load() { // Close may have looked for flights before this one began
		f.ctx.expire()
	}
	reply, received, err := f.call(&f.ctx, now)
	inTime := f.watch.Stop() && !f.ctx.over.Load() // the watchdog is set twice
	if !f.over.CompareAndSwap(false, true) {
		return false
	}
	if err != nil {
		f.refuse(err)
	} else {
		f.deliver(&reply, received)
	}
	return inTime
}

// board sorts out which asks go with this call: not those whose callers have
// gone, nor those so old that an answer could come after their call timeout.
// It returns when the oldest call on board began.
func (f *flight) board(now int64, batch []*ask) (oldest int64) {
	l := f.lane
	// More than half, or a call that a stalled shard has held up for half its time
	// could not be served by another; less than all, for the sake of the others on board.
	limit := int64(l.core.client.cfg.CallTimeout / 4 * 3)
	f.asks, f.groups = f.asks[:0], f.groups[:0]
	oldest = now
	for i, a := range batch {
		if a.state.Load() == askLeft {
			l.waiting.Add(-1)
			a.recycle()
			continue
		}
		if now-a.since > limit {
			l.settle(a, answer{}, errTooLate)
			continue
		}
		size, count := a.shape()
		if last := len(f.groups) - 1; last >= 0 && f.groups[last].Size == size && f.groups[last].Count+count <= script.MaxPermits {
			f.groups[last].Count += count
		} else if len(f.groups) == script.MaxGroups {
			l.requeue(batch[i:])
			break
		} else {
			f.groups = append(f.groups, script.Group{Size: size, Count: count})
		}
		oldest = min(oldest, a.since)
		f.asks = append(f.asks, a)
	}
	return oldest
}

// call makes the script call, learns from the reply and tells breaker and telemetry.
func (f *flight) call(ctx context.Context, now int64) (reply script.TakeReply, received int64, err error) {
	l := f.lane
	e, err := l.endpoint(ctx)
	if err != nil {
		return reply, now, err
	}
	t := l.terms.Load()
	f.req = script.TakeRequest{
		Proposal: l.proposal(t),
		Known:    l.core.knownFor(),
		Seen:     l.remembers(now),
		Groups:   f.groups,
	}
	ctx, span := l.core.client.tel.startCall(ctx, l, f.asks)
	f.sent.Store(true)
	reply, err = e.scripts.Take(ctx, l.ref, &f.req)
	received = l.core.client.now()
	l.report(e, err)
	l.core.client.tel.endCall(ctx, span, l, len(f.asks), time.Duration(received-now), err)
	if err == nil {
		l.known.learn(now, received, t.window, &reply)
		l.core.notice(l, t, &reply)
	}
	return reply, received, err
}

// deliver hands the grants out in order of arrival, by the rule the script used.
func (f *flight) deliver(r *script.TakeReply, received int64) {
	f.grants, _ = script.Distribute(f.grants[:0], r.Before, f.groups)
	group, seats, left := 0, f.groups[0].Count, f.grants[0]
	refused := int64(0) // size of the first ask that was refused: the one Retry is about
	for i, a := range f.asks {
		size, count := a.shape()
		if seats == 0 {
			group++
			seats, left = f.groups[group].Count, f.grants[group]
		}
		got := min(left, count)
		seats -= count
		left -= got
		ans := answer{granted: got * size, at: r.At, ticket: f.number<<20 | uint64(i), now: received}
		if got < count {
			if refused == 0 {
				refused = size
			}
			ans.retry = unknownRetry
			if size == refused {
				ans.retry = r.Retry
			}
		}
		f.lane.settle(a, ans, nil)
	}
}

// refuse ends the asks of a call that failed, and those that wait behind it,
// so that they can go to another shard at once.
func (f *flight) refuse(err error) {
	l := f.lane
	if f.sent.Load() && !script.NotExecuted(err) {
		l.core.client.tel.lost(l.core, f.wanted())
	}
	if errors.Is(err, script.ErrForeignState) {
		l.shun(err)
	}
	failure := l.fail(err)
	for _, a := range f.asks {
		l.settle(a, answer{}, failure)
	}
	l.turnAway(err)
}

// ring is the timer of the flight, and what Close does to it: first it ends the context of the call, then,
// if the call does not heed that, it answers the asks without it.
func (f *flight) ring() {
	if f.ctx.expire() {
		f.watch.Reset(watchGrace)
		return
	}
	if !f.over.CompareAndSwap(false, true) {
		return
	}
	if !f.sent.Load() {
		f.refuse(errNodeAway)
		return
	}
	if e := f.lane.node.known(f.lane.slot); e != nil {
		f.lane.report(e, context.DeadlineExceeded)
	}
	f.refuse(context.DeadlineExceeded)
}

func (f *flight) wanted() (n int64) {
	for _, g := range f.groups {
		n += g.Size * g.Count
	}
	return n
}

// shape is how the ask appears in a call: count asks of size permits each.
func (a *ask) shape() (size, count int64) {
	if a.upTo {
		return 1, a.n
	}
	return a.n, 1
}
