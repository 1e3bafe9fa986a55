package lane

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// watchGrace is how much longer than its context a script call may take before
// its asks are answered without it. Redis clients can overrun a context, for
// instance while they wait for somebody else's attempt to connect.
const watchGrace = 5 * time.Millisecond

// detour is a batch that does not fly with those of other shards, because it has something else to
// do first or is in a hurry: until its shard has state it confirms the layout, or it makes sure of
// a layout that the shard would not tell it about.
type detour struct {
	section
	before told // what the shard said to the call before, if there was one
	ctx    expiry
	watch  *time.Timer
	over   atomic.Bool // answered, or given up
}

// detour sends a batch alone. If its shard was asked already and did nothing, callers are what it
// was told of those who ask.
func (l *Lane) detour(b *batch, before told, callers []script.Caller) {
	d := &detour{section: section{lane: l, batch: b, callers: callers}, before: before}
	d.ctx.done = make(chan struct{})
	e := l.env
	now := e.Clock.Now()
	d.groups = b.groups(nil)
	budget := e.CallTimeout - time.Duration(now-b.oldest)
	if l.hasOthers() {
		budget = min(budget, e.CallTimeout/2)
	}
	d.hurry = e.Hurried(budget)
	d.ctx.at = e.Clock.At(now + int64(budget))
	d.watch = time.AfterFunc(time.Hour, d.ring)
	d.watch.Reset(budget) // which it might be over before it was known
	e.air.add(d)
	defer e.air.remove(d)
	if e.Closed.Load() { // Close may have looked for calls before this one began
		d.ctx.expire()
	}
	received, err := d.call(&d.ctx)
	d.watch.Stop()
	if !d.over.CompareAndSwap(false, true) {
		return
	}
	if err != nil {
		d.refuse(err)
	} else {
		d.deliver(received)
	}
}

// call makes the script call, and what it takes before and between.
func (d *detour) call(ctx context.Context) (received int64, err error) {
	err = d.lane.present(ctx, nil, d.before, func(t *Terms) (script.Status, clock.ServerTime, error) {
		var err error
		received, err = d.take(ctx, t)
		return d.reply.Status, d.reply.At, err
	})
	return received, err
}

// take makes one script call under these terms, and learns from the reply.
func (d *detour) take(ctx context.Context, t *Terms) (received int64, err error) {
	l := d.lane
	least := time.Duration(0)
	if d.hurry {
		least = math.MaxInt64
	}
	ctx, c, err := l.begin(ctx, telemetry.Take, d.batch.calls(), least, d.batch.links)
	if err != nil {
		return 0, err
	}
	d.prepare(t, c.Sent)
	d.sent.Store(true)
	d.reply, err = c.Scripts.Take(ctx, l.Ref, &d.req)
	received = c.Finish(ctx, err)
	if err == nil {
		d.learn(&c, received)
	}
	return received, err
}

// ring is the timer of the detour, and what Close does to it: first it ends the context of the
// call, then, if the call does not heed that, it answers the asks without it.
func (d *detour) ring() {
	if d.ctx.expire() {
		d.watch.Reset(watchGrace)
		return
	}
	if !d.over.CompareAndSwap(false, true) {
		return
	}
	d.batch.keep() // the call may come back late, and look
	if d.sent.Load() {
		if !d.hurry {
			d.lane.Node.Silence(d.lane.Slot)
		}
		d.refuse(context.DeadlineExceeded)
	} else {
		d.refuse(node.ErrAway)
	}
}
