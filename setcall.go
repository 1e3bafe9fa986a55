package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// This file is one call on a Set: whom to ask in which order, and what becomes of
// the answers.

// setVote is what one limit of a Set says to one call.
type setVote struct {
	*member
	routes *routes // nil if the limit could not be declared yet
	since  int64   // when the call began, on the clock of the core's client
	asked  bool
	said   Decision
	err    error
}

// partOneByOne is the part of the call timeout, one in so many, for which limits are asked one by
// one.
const partOneByOne = 8

// setCall is one call on a Set. It has one deadline: the time that the first limits took is missing
// for those that are asked after them.
type setCall struct {
	ctx   context.Context
	n     int64
	votes []setVote
	lost  bool // somebody refused or failed: the rest need not be asked
	wg    sync.WaitGroup
}

// ask has a limit decide, of which the set call was told with asked. What it grants counts until it
// is given back.
func (p *setCall) ask(v *setVote) {
	v.err = v.decide(p.ctx, p.n, false, v.since, &v.said)
}

// fromMemory asks the limits that this process decides by itself, and collects
// the refusals that it is certain of.
func (p *setCall) fromMemory() {
	for i := range p.votes {
		v := &p.votes[i]
		if v.core.isPerParticipant(v.routes) || v.refuses(v.routes, p.n, v.since) {
			v.asked = true
			p.ask(v)
			p.lost = p.lost || !v.said.Allowed
		}
	}
}

// likelyToRefuse asks one after the other, the scarcest first, the limits that
// would refuse if nothing had changed since they were last heard from: what the
// others would have granted would only have to be given back. That may take an eighth of the call
// timeout, or far nodes would leave no time for the rest: then all are asked at once.
func (p *setCall) likelyToRefuse() {
	if p.lost {
		return
	}
	var scarce []*setVote
	left := 0
	for i := range p.votes {
		v := &p.votes[i]
		if v.asked {
			continue
		}
		left++
		if v.routes != nil && v.routes.spare() < p.n {
			scarce = append(scarce, v)
		}
	}
	slices.SortStableFunc(scarce, func(a, b *setVote) int { return cmp.Compare(a.routes.spare(), b.routes.spare()) })
	if len(scarce) == 0 || left == 1 { // the only one is asked on this goroutine, see everybodyElse
		return
	}
	late := time.NewTimer(p.patience())
	defer late.Stop()
	for _, v := range scarce {
		answered := make(chan struct{})
		v.asked = true
		p.wg.Go(func() {
			defer close(answered)
			p.ask(v)
		})
		select {
		case <-answered:
		case <-late.C:
			return
		}
		if p.lost = p.lost || !v.said.Allowed; p.lost {
			return
		}
	}
}

// patience is how long limits are asked one by one.
func (p *setCall) patience() time.Duration {
	least := p.votes[0].core.client.cfg.CallTimeout
	for i := range p.votes {
		least = min(least, p.votes[i].core.client.cfg.CallTimeout)
	}
	return least / partOneByOne
}

// everybodyElse asks all that are left at the same time.
func (p *setCall) everybodyElse() {
	defer p.wg.Wait()
	if p.lost {
		return
	}
	var last *setVote
	for i := range p.votes {
		v := &p.votes[i]
		if v.asked {
			continue
		}
		v.asked = true
		if last != nil {
			other := last
			p.wg.Go(func() { p.ask(other) })
		}
		last = v
	}
	if last != nil {
		p.ask(last) // on this goroutine
	}
}

// result sums the votes up, and gives back what was granted in vain.
func (p *setCall) result() (Decision, error) {
	granted := make([]Decision, 0, len(p.votes))
	d := Decision{Remaining: MaxPermits + 1}
	var errs []error
	refused := false
	for i := range p.votes {
		v := &p.votes[i]
		switch {
		case !v.asked:
			continue
		case v.err != nil:
			errs = append(errs, v.err)
			continue
		case v.said.Allowed:
			granted = append(granted, v.said)
		default:
			refused = true
		}
		d.include(&v.said)
	}
	if !refused && len(errs) == 0 {
		d.Allowed, d.Granted, d.joint = true, p.n, &granted
		return d, nil
	}
	p.handBack(granted)
	if p.ctx.Err() != nil {
		return Decision{}, context.Cause(p.ctx)
	}
	if !refused {
		return Decision{}, errors.Join(errs...)
	}
	for i := range p.votes {
		if v := &p.votes[i]; !v.asked {
			d.RetryAfter = max(d.RetryAfter, v.soonest(p.ctx, v.routes, p.n, v.since))
		}
	}
	return d, nil
}

// include takes what one limit said into the decision of all.
func (d *Decision) include(one *Decision) {
	if one.Remaining < d.Remaining {
		d.Remaining, d.Limit = one.Remaining, one.Limit
	}
	d.Delay = max(d.Delay, one.Delay)
	d.RetryAfter = max(d.RetryAfter, one.RetryAfter)
	d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
	d.Degraded = d.Degraded || one.Degraded
	d.source = one.source
}

// handBack returns what some limits granted because another refused. It waits
// for that no longer than the call may take.
func (p *setCall) handBack(granted []Decision) {
	var wg sync.WaitGroup
	for _, d := range granted {
		since := d.core.client.now()
		for i := range p.votes {
			if p.votes[i].core == d.core {
				since = p.votes[i].since
			}
		}
		wg.Go(func() {
			d.core.handBack(p.ctx, d, since)
			d.core.members.wake() // somebody may have been refused meanwhile
		})
	}
	wg.Wait()
}

// isPerParticipant reports whether this process decides the limit by itself.
func (c *core) isPerParticipant(t *routes) bool {
	if t == nil {
		return c.declaration().Scope == PerParticipant
	}
	return t.limit.Scope == PerParticipant
}

// refuses reports whether it is certain that n permits would be refused, without
// asking Redis.
func (m *member) refuses(t *routes, n, now int64) bool {
	if t == nil {
		return false
	}
	if l := m.leases.current.Load(); l != nil && t.limit.Lease > 0 && now < l.until && l.Sum() >= n {
		return false
	}
	var d Decision
	return m.view(t).knownDenial(n, now, &d)
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

// soonest is how long it takes until the limit can grant n permits, by what this
// process has heard; for more than one it may have to ask what the shards have ahead.
func (m *member) soonest(ctx context.Context, t *routes, n, since int64) time.Duration {
	if t == nil || t.spare() >= n {
		return 0
	}
	c := m.core
	now := c.client.now()
	if n == 1 {
		_, _, next := m.view(t).shutOut(now)
		return max(0, time.Duration(next-now))
	}
	if o := c.ahead.Load(); o != nil && now < o.until {
		return max(0, time.Duration(o.when(n, t.limit.Per)-now))
	}
	return max(0, c.forecast(ctx, t, n, since))
}
