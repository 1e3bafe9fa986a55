package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
)

// keyTickets is how many refunds of a key of a family a process remembers.
const keyTickets = 256

// ticketKey says which part of which decision was refunded.
type ticketKey struct {
	first  *lane.Seat // with lease and number: which decision
	lease  *lease
	engine *local.Engine
	number uint64
	part   int // which of its parts, of which two may be of one shard
}

// refund gives back what the decision was granted, once. A part that surely was
// not given back, because its node is away, may be tried again. due is when
// permits that were reserved could be used, on the client's clock, else 0.
func (c *core) refund(ctx context.Context, d Decision, due int64) error {
	now := c.client.now()
	switch {
	case d.core == nil && d.joint == nil || d.Granted == 0:
		return nil
	case d.core == nil || d.core.client != c.client || d.core.id != c.id:
		return fmt.Errorf("%w: refund it to the Limiter or Set that made it, not to %q", ErrOtherLimiter, c.name)
	case now >= d.until:
		return nil
	}
	c = d.core // it knows what was refunded; a family may have forgotten the key meanwhile
	if d.engine != nil {
		unused, tooOld := c.rare().refunded.Claim(now, d.until, ticketKey{engine: d.engine, number: d.ticket})
		if tooOld {
			return ErrRefundTooOld
		}
		if unused[0] {
			d.refundHere()
			c.members.wake()
		}
		return nil
	}
	parts := d.parts()
	all := make([]ticketKey, len(parts))
	for i := range parts {
		all[i] = ticketKey{first: d.first.Seat, lease: d.lease, number: d.ticket, part: i}
	}
	unused, tooOld := c.rare().refunded.Claim(now, d.until, all...)
	if tooOld {
		return ErrRefundTooOld
	}
	var mine []lane.Part
	var keys []ticketKey
	for i, p := range parts {
		if unused[i] {
			mine, keys = append(mine, p), append(keys, all[i])
		}
	}
	// One deadline for all parts.
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout)
	defer cancel()
	var errs []error
	for i, r := range lane.RefundAll(ctx, mine, due) {
		if r.Err != nil {
			errs = append(errs, mine[i].Seat.Lane.Fail(r.Err))
		}
		if r.Unsent {
			c.rare().refunded.Release(keys[i])
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.members.wake()
	return nil
}

// refundHere gives back what this process decided by itself, the newest part first: a bucket takes
// back only what was granted last.
func (d *Decision) refundHere() {
	for _, p := range slices.Backward(d.parts()) {
		d.engine.Refund(p.N, p.At)
	}
}

// handBack is giveBack on behalf of a call that began at since. It goes on in
// the background when ctx ends or the call has used up its timeout, so that a
// node that stalls meanwhile does not hold the caller up. Close waits for that.
func (c *core) handBack(ctx context.Context, d Decision, since int64) {
	if d.Granted == 0 {
		return
	}
	done := make(chan struct{})
	if !c.client.spawn(func(context.Context) { // ends soon: see giveBack
		defer close(done)
		c.giveBack(d)
	}) {
		c.giveBack(d) // after Close nothing may go on behind the caller
		return
	}
	late := time.NewTimer(c.client.cfg.CallTimeout - time.Duration(c.client.now()-since))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// giveBack returns the parts of a decision that did not come to anything, and tells how many
// permits could not be returned. It does not heed the caller's context, as the permits would be
// lost, and takes at most as long as a call may take, or a second if that is longer.
func (c *core) giveBack(d Decision) (lost int64) { return c.giveBackDue(d, 0) }

// giveBackDue is giveBack of a decision that kept the permits from others until
// they were due, on the client's clock.
func (c *core) giveBackDue(d Decision, due int64) (lost int64) {
	if d.Granted == 0 {
		return 0
	}
	if d.engine != nil {
		d.refundHere()
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastRefund, c.client.cfg.CallTimeout))
	defer cancel()
	parts := d.parts()
	for i, r := range lane.RefundAll(ctx, parts, due) {
		if r.Err != nil {
			lost += parts[i].N
			c.client.cfg.Logger.Debug("permits could not be given back", "limiter", c.name, "permits", parts[i].N,
				"err", r.Err)
		}
	}
	return lost
}

func (d *Decision) parts() []lane.Part {
	if d.lease != nil {
		return lane.Cut(d.lease.grant.parts(), int64(d.ticket), d.Granted)
	}
	if d.first.N == 0 {
		return nil
	}
	return append([]lane.Part{d.first}, d.more...)
}
