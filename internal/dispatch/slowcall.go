package dispatch

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// slowCall is a script call for one batch alone: what it relies on has to be confirmed first.
type slowCall struct {
	section
	watchdog
}

// sendSlowly sends a batch in a slow call. before is what an earlier call for it was told, if any.
func (sh *Shard) sendSlowly(b *batch, before told) {
	slow := &slowCall{section: section{shard: sh, batch: b}}
	slow.watch(sh.env, slow.giveUp)
	now := sh.env.Clock.Now()
	slow.groups = b.groups(nil)
	budget := sh.env.budget(now-b.oldest, sh.Terms.Load().splitOver(sh.Node))
	slow.begin(now, budget)
	received, left := int64(0), false
	err := basis{shard: sh}.present(slow, before, func(b basis) (script.Status, clock.ServerTime, error) {
		if left = sh.left(); left { // as was read meanwhile
			return script.OK, 0, nil
		}
		var err error
		received, err = slow.ask(slow, b)
		return slow.reply.Status, slow.reply.At, err
	})
	switch awaited, _ := slow.finish(); {
	case !awaited:
	case left || err != nil && sh.left() && !slow.sent.Load():
		sh.deny(slow.batch, sh.env.Clock.Now())
	case err != nil:
		slow.refuse(err)
	default:
		slow.deliver(received)
	}
}

// budget returns the time that a call has whose oldest ask has that age: half of it if the limit
// has shards to go to instead.
func (e *Env) budget(age int64, split bool) time.Duration {
	left := e.CallTimeout - time.Duration(age)
	if split {
		left = min(left, e.CallTimeout/2)
	}
	return left
}

// ask makes one script call on this basis, and learns from the reply.
func (slow *slowCall) ask(ctx context.Context, b basis) (received int64, err error) {
	sh := slow.shard
	ctx, c, err := sh.begin(ctx, telemetry.Take, slow.batch)
	if err != nil {
		return 0, err
	}
	slow.prepare(b, c.Sent)
	slow.sent.Store(true)
	slow.reply, err = c.Scripts.Take(ctx, sh.Ref, &slow.take)
	received = c.Finish(ctx, err)
	if err == nil {
		slow.learn(&c, received)
	}
	return received, err
}

// giveUp answers the asks of a call that does not come back.
func (slow *slowCall) giveUp() {
	if !slow.sent.Load() {
		slow.refuse(node.ErrAway)
		return
	}
	slow.shard.Node.Heard(slow.shard.Slot, context.DeadlineExceeded)
	slow.refuse(context.DeadlineExceeded)
}
