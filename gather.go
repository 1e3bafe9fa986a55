package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// leastRefund bounds the return of permits that nobody waits for any more, unless calls may take longer.
const leastRefund = time.Second

// gather collects n permits from several shards, and gives everything back if
// the sum falls short. Shards are visited in the order of the layout by every
// process, like locks that are taken in one order: of two collections that
// compete for the last permits the first one to come gets them all, and they
// cannot each end up with half. Within a process one collection runs at a time.
func (a *account) gather(ctx context.Context, v *view, n, since int64, failure error) (d Decision, err error) {
	c, t := a.core, v.table
	if err := c.myTurn(ctx, since); errors.Is(err, errTooLate) {
		return a.outage(t, n, false, err)
	} else if err != nil {
		return Decision{}, err
	}
	defer func() { <-c.collect }()
	if empty, _, _ := v.shutOut(c.client.now()); empty {
		if v.knownDenial(n, c.client.now(), &d) {
			return d, nil // the collection before this one has found out
		}
	}
	reached := false
	for _, s := range v.visit {
		now := c.client.now()
		if d.Granted == n {
			break
		}
		// A shard that paces this participant may yet have some of the permits.
		if shut := s.lane.known.shut(now); shut || !s.lane.ready(now) {
			reached = reached || shut
			continue
		}
		part := ask{n: n - d.Granted, upTo: true, since: since}
		err := s.ask(ctx, &part, now)
		if err == nil {
			reached = true
			d.add(s, &part.answer)
			continue
		}
		if e := c.gone(ctx, err); e != nil {
			c.handBack(ctx, d, since)
			return Decision{}, e
		}
		failure = err
	}
	now := c.client.now()
	if d.Granted == n {
		c.complete(&d, t, now)
		return d, nil
	}
	c.handBack(ctx, d, since)
	if !reached {
		return a.outage(t, n, false, failure)
	}
	next := c.forecast(ctx, t, n, since)
	d = Decision{}
	c.deny(t, c.client.now(), max(next, v.pause(c.client.now())), &d)
	return d, nil
}

// myTurn waits until no other collection is under way, at most until ctx ends or
// the call that began at since has used up the call timeout.
func (c *core) myTurn(ctx context.Context, since int64) error {
	select {
	case c.collect <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(c.client.cfg.CallTimeout - time.Duration(c.client.now()-since))
	defer late.Stop()
	select {
	case c.collect <- struct{}{}:
		return nil
	case <-late.C:
		return errTooLate
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handBack is giveBack on behalf of a call that began at since. It goes on in
// the background when ctx ends or the call has used up its timeout, so that a
// node that stalls meanwhile does not hold the caller up.
func (c *core) handBack(ctx context.Context, d Decision, since int64) {
	if d.Granted == 0 {
		return
	}
	done := make(chan struct{})
	go func() { // ends soon: see giveBack
		defer close(done)
		c.giveBack(d)
	}()
	late := time.NewTimer(c.client.cfg.CallTimeout - time.Duration(c.client.now()-since))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// giveBack returns the parts of a decision that did not come to anything. It
// does not heed the caller's context, as the permits would be lost, and takes at
// most as long as a call may take, or a second if that is longer.
func (c *core) giveBack(d Decision) { c.giveBackDue(d, 0) }

// giveBackDue is giveBack of a decision that kept the permits from others until
// they were due, on the client's clock.
func (c *core) giveBackDue(d Decision, due int64) {
	if d.Granted == 0 {
		return
	}
	if d.engine != nil {
		d.engine.refund(d)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastRefund, c.client.cfg.CallTimeout))
	defer cancel()
	for _, p := range d.parts() {
		if _, err := p.seat.refund(ctx, p, due); err != nil {
			c.client.cfg.Logger.Debug("permits could not be given back", "limiter", c.name, "permits", p.n, "err", err)
		}
	}
}

func (d *Decision) parts() []part {
	if d.lease != nil {
		return d.lease.slice(pile{int64(d.ticket), d.Granted})
	}
	if d.first.n == 0 {
		return nil
	}
	return append([]part{d.first}, d.more...)
}

// outlook is what the shards of a limit have ahead of them, as one process
// heard it: any number of permits can be free together at a time that follows
// from it, and not before, unless some are given back.
type outlook struct {
	free     int64
	releases []release // in order of time
	made     int64     // on the client's clock
	until    int64     // how long to believe it
}

// release is permits that come back at a time on the client's clock. Below 0 they are free no more: what is reserved comes into one window with them.
type release struct{ at, permits int64 }

func byTime(all []release) {
	slices.SortFunc(all, func(a, b release) int { return cmp.Compare(a.at, b.at) })
}

// forecast finds out when n permits will be free together, from the releases
// that every shard has ahead, and remembers the outlook.
func (c *core) forecast(ctx context.Context, t *table, n, since int64) time.Duration {
	o := &outlook{}
	for _, l := range t.lanes {
		left := c.client.cfg.CallTimeout - time.Duration(c.client.now()-since)
		if !l.ready(c.client.now()) || left <= 0 {
			continue
		}
		peek, err := l.peek(ctx, left)
		if err != nil {
			continue
		}
		received := c.client.now()
		reopens(&peek, t.layout)
		o.free += peek.Free
		if peek.Free > 0 {
			l.known.open() // it was empty and got permits back, perhaps from a collection of another process
		}
		o.releases = append(o.releases, releasesOf(peek.Beside, peek.Closed, received, l.room(&peek))...)
	}
	byTime(o.releases)
	o.made = c.client.now()
	o.until = o.made + int64(shutCap(t.limit.Per))
	c.ahead.Store(o)
	return time.Duration(o.when(n, t.limit.Per) - o.made)
}

// when is the time at which n permits are free together. Permits that no shard
// which answered has are on shards that are away: those take a window.
func (o *outlook) when(n int64, window time.Duration) int64 {
	free := o.free
	if free >= n {
		return 0
	}
	for i, r := range o.releases {
		free += r.permits
		if more := i+1 < len(o.releases) && o.releases[i+1].at == r.at; free >= n && !more {
			return r.at
		}
	}
	return o.made + int64(window)
}
