package lane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// watchGrace is how much longer than its context a script call may take before
// its asks are answered without it. Redis clients can overrun a context, for
// instance while they wait for somebody else's attempt to connect.
const watchGrace = 5 * time.Millisecond

// flight is one script call on behalf of a batch of asks. A flier uses the same
// flight again and again, except after the watchdog has given one up: then the
// late reply still belongs to the old one.
type flight struct {
	lane    *Lane
	flier   int
	batch   *batch          // to be landed by whoever sets over
	groups  []script.Group  // its asks, as the script wants them
	callers []script.Caller // those who ask
	grants  []int64
	req     script.TakeRequest
	ctx     expiry
	hurry   bool // it has so little time, because its asks have waited, that silence tells nothing of the node
	watch   *time.Timer
	sent    atomic.Bool
	over    atomic.Bool // answered, or given up
}

func newFlight(l *Lane, flier int) *flight {
	f := &flight{lane: l, flier: flier}
	f.ctx.done = make(chan struct{})
	f.watch = time.AfterFunc(time.Hour, f.ring)
	f.watch.Stop()
	return f
}

// run sends the batch and hands out the answers. It reports false if the
// watchdog has given the call up before it ended, and another goroutine flies now.
func (f *flight) run(b *batch) bool {
	l, e := f.lane, f.lane.env
	now := e.Clock.Now()
	f.batch, f.groups = b, b.groups(f.groups[:0])
	budget := e.CallTimeout - time.Duration(now-b.oldest)
	if l.Terms.Load().Shards > 1 {
		budget = min(budget, e.CallTimeout/2)
	}
	f.hurry = e.Hurried(budget)
	f.sent.Store(false)
	f.over.Store(false)
	f.ctx.at = e.Clock.At(now + int64(budget))
	f.watch.Reset(budget)
	if e.Closed.Load() { // Close may have looked for flights before this one began
		f.ctx.expire()
	}
	reply, received, err := f.call(&f.ctx)
	inTime := f.watch.Stop() && !f.ctx.over.Load() // the watchdog is set twice
	if !f.over.CompareAndSwap(false, true) {
		return false
	}
	if !inTime {
		l.air[f.flier].Store(nil) // its context has ended
	}
	if err != nil {
		f.refuse(err)
	} else {
		f.deliver(&reply, received)
	}
	return true
}

// call makes the script call.
func (f *flight) call(ctx context.Context) (reply script.TakeReply, received int64, err error) {
	f.callers = f.callers[:0]
	err = f.lane.present(ctx, nil, func(t *Terms) (script.Status, int64, error) {
		var err error
		received, err = f.take(ctx, t, &reply)
		return reply.Status, reply.At, err
	})
	return reply, received, err
}

// take makes one script call under these terms, and learns from the reply.
func (f *flight) take(ctx context.Context, t *Terms, reply *script.TakeReply) (received int64, err error) {
	l := f.lane
	least := time.Duration(0)
	if f.hurry {
		least = math.MaxInt64
	}
	ctx, c, err := l.begin(ctx, telemetry.Take, f.batch.calls(), least, f.batch.links)
	if err != nil {
		return 0, err
	}
	if len(f.callers) == 0 {
		l.Limit.Refresh()
		for _, s := range f.batch.seats {
			f.callers = append(f.callers, s.Report(t.Shards))
		}
	}
	f.req.Groups, f.req.Callers = f.groups, f.callers
	f.req.Proposal, f.req.Known, f.req.Seen, f.req.Deadline = t.Proposal, l.Limit.KnownFor(), l.remembers(c.Sent), l.deadline(t.Epoch)
	f.req.Room, f.req.CallerRoom = f.grants[:0], f.req.CallerRoom[:0]
	f.sent.Store(true)
	*reply, err = c.Scripts.Take(ctx, l.Ref, &f.req)
	received = c.finish(ctx, err)
	switch {
	case err != nil:
	case reply.Status == script.Absent && t.Epoch != 0:
		f.sent.Store(false) // nothing was executed
	default:
		f.req.CallerRoom = reply.Callers
		c.heard(t, received, reply)
		for i, s := range f.batch.seats {
			s.learn(c.Sent, received, reply, i)
		}
	}
	return received, err
}

// deliver hands the grants out, by the rule the script used.
func (f *flight) deliver(r *script.TakeReply, received int64) {
	b := f.batch
	b.at, b.now, b.retry, b.rest = r.At, received, r.Retry, r.Free+f.lane.Limit.Elsewhere(f.lane)
	if f.lane.Paced {
		reply := *r
		b.paced = &reply
	}
	f.grants = r.Grants
	f.lane.land(b, r.Grants, nil)
}

// late reports whether a call ended like this because its asks had waited too long before.
func (f *flight) late(err error) bool {
	return f.hurry && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// refuse ends the asks of a call that failed, and those that wait behind it, so that they can go to
// another shard at once. Behind a call that was merely late they stay.
func (f *flight) refuse(err error) {
	l := f.lane
	if f.sent.Load() && !script.NotExecuted(err) {
		l.env.Telemetry.Lost(l.Metrics, f.wanted())
	}
	if f.late(err) {
		l.land(f.batch, nil, l.Fail(fmt.Errorf("%w: %w", ErrTooLate, err)))
		return
	}
	l.land(f.batch, nil, l.Fail(err))
	l.endWaiting(err)
}

// ring is the timer of the flight, and what Close does to it: first it ends the context of the
// call, then, if the call does not heed that, it answers the asks without it.
func (f *flight) ring() {
	if f.ctx.expire() {
		f.watch.Reset(watchGrace)
		return
	}
	if !f.over.CompareAndSwap(false, true) {
		return
	}
	l := f.lane
	l.air[f.flier].Store(nil) // the goroutine of this one may never come back
	f.batch.keep()            // or come back late, and look
	if f.sent.Load() {
		if !f.hurry {
			l.Node.Silence(l.Slot)
		}
		f.refuse(context.DeadlineExceeded)
	} else {
		f.refuse(node.ErrAway)
	}
	go l.fly(f.flier)
}

func (f *flight) wanted() (n int64) {
	for _, g := range f.groups {
		n += g.Size * g.Count
	}
	return n
}
