package dispatch

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// detour is a batch that does not fly with those of other shards, because it has something else to
// do first: until its shard has state it confirms the layout, or it makes sure of
// a layout that the shard would not tell it about.
type detour struct {
	section
	watchdog
}

// detour sends a batch alone. If its shard was asked already and did nothing, callers are what it
// was told of those who ask.
func (l *Lane) detour(b *batch, before told, callers []script.Caller) {
	d := &detour{section: section{lane: l, batch: b, callers: callers}}
	d.watch(l.env, d.giveUp)
	now := l.env.Clock.Now()
	d.groups = b.groups(nil)
	budget := l.env.budget(now-b.oldest, l.Terms.Load().splitOver(l.Node))
	d.begin(now, budget)
	received, left := int64(0), false
	err := basis{lane: l}.present(d, before, func(b basis) (script.Status, clock.ServerTime, error) {
		if left = l.left(); left { // as was read meanwhile
			return script.OK, 0, nil
		}
		var err error
		received, err = d.take(d, b)
		return d.reply.Status, d.reply.At, err
	})
	switch awaited, _ := d.finish(); {
	case !awaited:
	case left || err != nil && l.left() && !d.sent.Load():
		l.deny(d.batch, l.env.Clock.Now())
	case err != nil:
		d.refuse(err)
	default:
		d.deliver(received)
	}
}

// budget is the time that a call has whose oldest ask has that age: half of it if the limit has
// shards to go to instead.
func (e *Env) budget(age int64, split bool) time.Duration {
	left := e.CallTimeout - time.Duration(age)
	if split {
		left = min(left, e.CallTimeout/2)
	}
	return left
}

// take makes one script call on this basis, and learns from the reply.
func (d *detour) take(ctx context.Context, b basis) (received int64, err error) {
	l := d.lane
	ctx, c, err := l.begin(ctx, telemetry.Take, d.batch.calls(), l.env.haste(), d.batch.links)
	if err != nil {
		return 0, err
	}
	d.prepare(b, c.Sent)
	d.sent.Store(true)
	d.reply, err = c.Scripts.Take(ctx, l.Ref, &d.req)
	received = c.Finish(ctx, err)
	if err == nil {
		d.learn(&c, received)
	}
	return received, err
}

// giveUp answers the asks of a call that does not come back.
func (d *detour) giveUp() {
	d.batch.keep() // the call may come back late, and look
	if !d.sent.Load() {
		d.refuse(node.ErrAway)
		return
	}
	d.lane.Node.Silence(d.lane.Slot)
	d.refuse(context.DeadlineExceeded)
}
