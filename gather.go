package shardlimit

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// refundTimeout bounds the return of permits that nobody waits for any more.
const refundTimeout = time.Second

// gather collects n permits from several shards, and gives everything back if
// the sum falls short. Shards are visited in the order of the layout by every
// process, like locks that are taken in one order: of two collections that
// compete for the last permits the first one to come gets them all, and they
// cannot each end up with half. Within a process one collection runs at a time.
func (c *core) gather(ctx context.Context, t *table, n, since int64, failure error) (Decision, error) {
	select {
	case c.collect <- struct{}{}:
		defer func() { <-c.collect }()
	case <-ctx.Done():
		return Decision{}, context.Cause(ctx)
	}
	var d Decision
	reached := false
	for _, l := range t.lanes {
		now := c.client.now()
		if d.Granted == n {
			break
		}
		if !l.ready(now) || l.known.shut(now) {
			reached = reached || l.known.shut(now)
			continue
		}
		ans, err := l.ask(ctx, n-d.Granted, true, since)
		if err == nil {
			reached = true
			d.add(part{l, ans.at, ans.granted}, ans.ticket)
			continue
		}
		if e := c.gone(ctx, err); e != nil {
			c.giveBack(d)
			return Decision{}, e
		}
		failure = err
	}
	now := c.client.now()
	if d.Granted == n {
		c.complete(&d, t, now)
		return d, nil
	}
	c.giveBack(d)
	if !reached {
		return c.outage(t, now, n, false, failure)
	}
	next := c.forecast(ctx, t, n, since)
	return c.denial(t, c.client.now(), next), nil
}

// giveBack returns the parts of a decision that did not come to anything. It
// does not wait for the caller's context: the permits would be lost.
func (c *core) giveBack(d Decision) {
	if d.Granted == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), refundTimeout)
	defer cancel()
	for _, p := range d.parts() {
		if _, err := p.lane.refund(ctx, p); err != nil {
			c.client.cfg.Logger.Debug("permits could not be given back", "limiter", c.name, "permits", p.n, "err", err)
		}
	}
}

func (d *Decision) parts() []part {
	if d.lease != nil {
		return d.lease.slice(int64(d.ticket), d.Granted)
	}
	if d.first.n == 0 {
		return nil
	}
	return append([]part{d.first}, d.more...)
}

// forecast finds out when n permits will be free together, from the releases
// that every shard has ahead, and remembers it.
func (c *core) forecast(ctx context.Context, t *table, n, since int64) time.Duration {
	var releases []script.Release
	var free int64
	for _, l := range t.lanes {
		left := c.client.cfg.CallTimeout - time.Duration(c.client.now()-since)
		if !l.ready(c.client.now()) || left <= 0 {
			continue
		}
		peek, err := l.peek(ctx, left)
		if err != nil {
			continue
		}
		free += peek.Free
		releases = append(releases, peek.Releases...)
	}
	delay := whenFree(free, n, releases)
	if delay < 0 {
		delay = t.limit.Per // shards that are away have what is missing
	}
	now := c.client.now()
	hold := min(max(t.limit.Per/10, shutCapMin), shutCapMax)
	c.short.Store(&shortage{permits: n, freeAt: now + int64(delay), until: now + int64(min(delay, hold))})
	return delay
}

// whenFree is the time until n permits are free, given what is free now and
// what comes back when; -1 if they never are.
func whenFree(free, n int64, releases []script.Release) time.Duration {
	if free >= n {
		return 0
	}
	slices.SortFunc(releases, func(a, b script.Release) int { return int(a.In - b.In) })
	for _, r := range releases {
		if free += r.Permits; free >= n {
			return r.In
		}
	}
	return -1
}
