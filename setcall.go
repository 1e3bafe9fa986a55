package shardlimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// This file is one call on a Set: whom to ask in which order, and what becomes of
// the answers.

// setVote is what one limit of a Set says to one call.
type setVote struct {
	*member
	routes *routes // nil if the limit could not be declared yet
	since  int64   // when the call began, on the clock of the core's client
	waits  bool    // before it can be asked, something has to be looked up
	asked  bool    // it has decided, or is about to
	said   Decision
	err    error
}

// setCall is one call on a Set.
type setCall struct {
	ctx   context.Context
	n     int64
	votes []setVote
	lost  bool // somebody refused: the rest need not be asked
}

// admit checks the call for every limit.
func (c *setCall) admit() error {
	waits := false
	for i := range c.votes {
		v := &c.votes[i]
		if v.waits = v.core.mayWait(); !v.waits {
			v.routes, _, v.err = v.member.admit(c.ctx, c.n, false)
		}
		waits = waits || v.waits
	}
	if waits {
		c.admitKeys()
	}
	for i := range c.votes {
		if err := c.votes[i].err; err != nil {
			return err
		}
	}
	return nil
}

// admitKeys checks the call for keys that have to look at the record of their family. They do so at
// the same time, which is of the time that the call has.
func (c *setCall) admitKeys() {
	var wg sync.WaitGroup
	for i := range c.votes {
		if v := &c.votes[i]; v.waits {
			wg.Go(func() { v.routes, _, v.err = v.member.admit(c.ctx, c.n, false) })
		}
	}
	wg.Wait()
}

// ask has one limit decide, once its vote says that it is asked. What it grants counts until it is
// given back.
func (c *setCall) ask(v *setVote) {
	v.err = v.decide(c.ctx, c.n, false, v.since, &v.said)
}

// fromMemory asks the limits that this process decides by itself, and collects
// the refusals that it is certain of.
func (c *setCall) fromMemory() {
	for i := range c.votes {
		v := &c.votes[i]
		if v.core.mode(v.routes).asksNobody() || v.core.limitOf(v.routes).Scope == PerParticipant ||
			v.refuses(v.routes, c.n, v.since) {
			v.asked = true
			c.ask(v)
			c.lost = c.lost || !v.said.Allowed
		}
	}
}

// everybodyElse asks all that are left at the same time.
func (c *setCall) everybodyElse() {
	if c.lost {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var last *setVote
	for i := range c.votes {
		v := &c.votes[i]
		if v.asked {
			continue
		}
		v.asked = true
		if last != nil {
			other := last
			wg.Go(func() { c.ask(other) })
		}
		last = v
	}
	if last != nil {
		c.ask(last) // on this goroutine
	}
}

// result sums the votes up, and gives back what was granted in vain.
func (c *setCall) result() (Decision, error) {
	said := make([]Decision, len(c.votes))
	d := Decision{Remaining: MaxPermits + 1, joint: &said}
	var errs []error
	refused := false
	for i := range c.votes {
		v := &c.votes[i]
		switch {
		case !v.asked:
			continue
		case v.err != nil:
			errs = append(errs, v.err)
			continue
		case !v.said.Allowed:
			refused = true
		}
		d.include(&v.said)
	}
	c.unlimited(&d)
	if !refused && len(errs) == 0 {
		for i := range c.votes {
			said[i] = c.votes[i].said
		}
		d.Allowed, d.Granted = true, c.n
		return d, nil
	}
	c.handBack()
	if c.ctx.Err() != nil {
		return Decision{}, clock.Ended(c.ctx)
	}
	if !refused {
		return Decision{}, allOf(errs)
	}
	for i := range c.votes {
		v := &c.votes[i]
		if said[i] = v.left(c.ctx, c.n); !v.asked {
			d.RetryAfter = max(d.RetryAfter, said[i].RetryAfter)
		}
	}
	return d, nil
}

// left is what a limit says of a call that was denied, once it has been given back what it granted.
func (v *setVote) left(ctx context.Context, n int64) Decision {
	limit := v.core.limitOf(v.routes)
	switch {
	case v.asked && v.err != nil:
		return Decision{Limit: limit.Permits, mode: limit.Mode}
	case v.asked:
		d := v.said
		if !d.mode.asksNobody() && !d.Shadowed {
			d.Remaining = min(d.Remaining+d.Granted, limit.most())
		}
		return d
	}
	d := Decision{Limit: limit.Permits, Remaining: limit.most(), mode: limit.Mode}
	if v.routes != nil {
		d.Remaining = v.routes.spare()
		d.ResetAfter = v.routes.resetAfter(v.core.client.now())
		if !limit.Mode.lenient() { // else it would have let the call pass
			d.RetryAfter = v.soonest(ctx, v.routes, n, v.since)
		}
	}
	d.Allowed = d.RetryAfter == 0
	return d
}

// unlimited has the decision tell of limits in Shadow if no other limit had anything to say.
func (c *setCall) unlimited(d *Decision) {
	if d.Remaining <= MaxPermits {
		return
	}
	for i := range c.votes {
		if v := &c.votes[i]; v.asked && v.err == nil && v.said.mode == Shadow {
			d.mode = Shadow
			d.left(&v.said)
		}
	}
	if d.Remaining > MaxPermits { // all are off
		d.Limit, d.Remaining, d.mode = MaxPermits, MaxPermits, Off
	}
}

// left takes what one limit has left into the decision of all.
func (d *Decision) left(one *Decision) {
	if one.Remaining < d.Remaining {
		d.Remaining, d.Limit, d.NextAfter = one.Remaining, one.Limit, one.NextAfter
	}
	d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
}

// include takes what one limit said into the decision of all. How much is left under one that
// refuses nobody concerns no caller.
func (d *Decision) include(one *Decision) {
	if !one.mode.lenient() {
		d.left(one)
	}
	d.Delay = max(d.Delay, one.Delay)
	d.RetryAfter = max(d.RetryAfter, one.RetryAfter)
	d.Degraded, d.Shadowed = d.Degraded || one.Degraded, d.Shadowed || one.Shadowed
	if one.mode == Closed {
		d.mode = Closed
	}
	d.source = one.source
}

// handBack returns what some limits granted because another refused. It waits
// for that no longer than the call may take.
func (c *setCall) handBack() {
	var wg sync.WaitGroup
	for i := range c.votes {
		v := &c.votes[i]
		if !v.asked || v.err != nil || !v.said.Allowed {
			continue
		}
		wg.Go(func() {
			v.core.handBack(c.ctx, v.said, v.since)
			v.core.members.wake() // somebody may have been refused meanwhile
		})
	}
	wg.Wait()
}

// refuses reports whether it is certain that n permits would be refused, without
// asking Redis.
func (m *member) refuses(r *routes, n, now int64) bool {
	if r == nil {
		return false
	}
	if l := m.leases.current.Load(); l != nil && r.limit.Lease > 0 && now < l.until && l.left.Load() >= n {
		return false
	}
	var d Decision
	return m.view(r).knownDenial(n, now, &d)
}

// spare is how many permits the limit would have left to give, as last heard and
// if all who wait for an answer are granted one. A shard that was not heard from
// has its share.
func (r *routes) spare() (n int64) {
	for _, l := range r.lanes {
		n += l.Left()
	}
	return n
}

// soonest is how long it takes until a limit that is not known to refuse can grant n permits. For
// more than one it may have to ask what the shards have ahead.
func (m *member) soonest(ctx context.Context, r *routes, n, since int64) time.Duration {
	if r.spare() >= n {
		return 0
	}
	if n == 1 { // when one comes is known for longer than it is believed that there is none
		now := m.core.client.now()
		_, next := m.view(r).shutOut(now)
		return max(0, time.Duration(next-now))
	}
	o, _ := m.core.look(ctx, r, since)
	return max(0, m.core.await(r, o, n))
}

// allOf joins the errors of a call. Where some tell of limits that are unavailable at present and
// others of what waiting does not mend, only these are told.
func allOf(errs []error) error {
	lasting := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, ErrUnavailable) })
	if len(lasting) > 0 {
		return errors.Join(lasting...)
	}
	return errors.Join(errs...)
}
