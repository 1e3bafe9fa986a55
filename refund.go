package shardlimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/striped"
)

// refund gives back what the decision was granted, once. A part that surely was
// not given back, because its node is away, may be tried again. due is when
// permits that were reserved could be used, on the client's clock, else 0.
func (c *core) refund(ctx context.Context, d Decision, due int64) error {
	now := c.client.now()
	if d.core == nil || d.core.client != c.client || d.core.id != c.id || d.Granted == 0 || now >= d.until {
		return nil
	}
	c = d.core // it knows what was refunded; a family may have forgotten the key meanwhile
	if d.engine != nil {
		unused, tooOld := c.refunded.claim(now, d.until, ticketKey{engine: d.engine, number: d.ticket})
		if tooOld {
			return ErrRefundTooOld
		}
		if unused[0] {
			d.engine.Refund(d.first.N, d.first.At)
			c.accounts.wake()
		}
		return nil
	}
	parts := d.parts()
	all := make([]ticketKey, len(parts))
	for i := range parts {
		all[i] = ticketKey{first: d.first.Seat, lease: d.lease, number: d.ticket, part: i}
	}
	unused, tooOld := c.refunded.claim(now, d.until, all...)
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
	for i, r := range refundAll(ctx, mine, due) {
		if r.err != nil {
			errs = append(errs, mine[i].Seat.Lane.Fail(r.err))
		}
		if r.unsent {
			c.refunded.release(keys[i])
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.accounts.wake()
	return nil
}

// returned is how the return of one part ended.
type returned struct {
	unsent bool // the command surely was not executed
	err    error
}

// refundAll gives back parts of what shards granted, all shards at once. Of parts of one shard the
// newer goes first: a bucket takes back only what was granted last. A node whose breaker is open is
// not asked.
func refundAll(ctx context.Context, parts []lane.Part, due int64) []returned {
	all := make([]returned, len(parts))
	newest := func(s *lane.Seat, before int) int { // its place
		for before--; before >= 0 && parts[before].Seat != s; before-- {
		}
		return before
	}
	var wg sync.WaitGroup
	for i, p := range parts {
		if slices.ContainsFunc(parts[i+1:], func(later lane.Part) bool { return later.Seat == p.Seat }) {
			continue
		}
		back := func() {
			for k := i; k >= 0; k = newest(p.Seat, k) {
				all[k].unsent, all[k].err = p.Seat.Refund(ctx, parts[k], due)
			}
		}
		if i == len(parts)-1 {
			back()
		} else {
			wg.Go(back)
		}
	}
	wg.Wait()
	return all
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
		d.engine.Refund(d.first.N, d.first.At)
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastRefund, c.client.cfg.CallTimeout))
	defer cancel()
	parts := d.parts()
	for i, r := range refundAll(ctx, parts, due) {
		if r.err != nil {
			lost += parts[i].N
			c.client.cfg.Logger.Debug("permits could not be given back", "limiter", c.name, "permits", parts[i].N,
				"err", r.err)
		}
	}
	return lost
}

func (d *Decision) parts() []lane.Part {
	if d.lease != nil {
		return d.lease.slice(striped.Pile{Place: int64(d.ticket), N: d.Granted})
	}
	if d.first.N == 0 {
		return nil
	}
	return append([]lane.Part{d.first}, d.more...)
}
