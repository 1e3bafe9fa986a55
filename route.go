package shardlimit

import (
	"context"
	"errors"
	"time"
)

// preferred is over how many shards a process spreads its calls while they have
// room; the others are where it spills to.
const preferred = 2

// minRetry keeps RetryAfter of a denial above zero.
const minRetry = 10 * time.Microsecond

// tried marks the lanes, by their place in table.order, that a call is done with.
type tried [MaxShards / 64]uint64

func (t *tried) add(i int)      { t[i/64] |= 1 << (i % 64) }
func (t *tried) has(i int) bool { return t[i/64]&(1<<(i%64)) != 0 }

// choose picks the next shard for a call: of the first few in the participant's
// order that may have room, the one with the fewest calls waiting. size is the
// least share that is of use. It returns -1 when there is none left.
func (t *table) choose(now int64, size int64, done *tried) int {
	best, seen := -1, 0
	for i, l := range t.order {
		if done.has(i) || l.known.shut(now) || l.terms.Load().share < size || !l.ready(now) {
			continue
		}
		if best < 0 || l.waiting.Load() < t.order[best].waiting.Load() {
			best = i
		}
		if seen++; seen == preferred {
			break
		}
	}
	return best
}

// shutOut reports whether every shard that can be reached is known to be empty,
// whether any can be, and when the first of them has a permit again.
func (t *table) shutOut(now int64) (empty, reachable bool, next int64) {
	empty = true
	for _, l := range t.lanes {
		if !l.ready(now) {
			continue
		}
		if at := l.known.freeAt.Load(); !reachable || at < next {
			next = at
		}
		reachable = true
		empty = empty && l.known.shut(now)
	}
	return empty && reachable, reachable, next
}

// whole gets n permits or none, at one shard if one has them, else collected
// from several.
func (c *core) whole(ctx context.Context, t *table, n, since int64) (Decision, error) {
	if t.limit.Scope == PerParticipant {
		return c.apart(t.limit, n, false), nil
	}
	now := since
	if d, ok := c.knownDenial(t, n, now); ok {
		return d, nil
	}
	var done tried
	var failure error
	reached := false
	retry := unknownRetry
	for {
		i := t.choose(now, n, &done)
		if i < 0 {
			break
		}
		done.add(i)
		l := t.order[i]
		ans, err := l.ask(ctx, n, false, since, now)
		switch {
		case err == nil && ans.granted == n:
			return c.allowed(t, ans.now, part{l, ans.at, n}, ans.ticket), nil
		case err == nil:
			now = ans.now
			reached = true
			if ans.retry != unknownRetry && (retry == unknownRetry || ans.retry < retry) {
				retry = ans.retry
			}
		default:
			if e := c.gone(ctx, err); e != nil {
				return Decision{}, e
			}
			failure, now = err, c.client.now()
		}
	}
	if n > 1 {
		// Without having asked: nothing is free, but not when n permits will be.
		if empty, _, _ := t.shutOut(now); t.split || empty && !reached {
			return c.gather(ctx, t, n, since, failure)
		}
	}
	return c.denied(t, now, n, false, reached, retry, failure)
}

// some gets as many permits as there are, up to n, from as many shards as it takes.
func (c *core) some(ctx context.Context, t *table, n, since int64) (Decision, error) {
	if t.limit.Scope == PerParticipant {
		return c.apart(t.limit, n, true), nil
	}
	now := since
	n = min(n, t.limit.Permits)
	if d, ok := c.knownDenial(t, 1, now); ok {
		return d, nil
	}
	var done tried
	var failure error
	var d Decision
	reached := false
	for d.Granted < n {
		i := t.choose(now, 1, &done)
		if i < 0 {
			break
		}
		done.add(i)
		l := t.order[i]
		ans, err := l.ask(ctx, n-d.Granted, true, since, now)
		now = c.client.now()
		if err == nil {
			reached = true
			d.add(part{l, ans.at, ans.granted}, ans.ticket)
			continue
		}
		if e := c.gone(ctx, err); e != nil {
			if d.Granted > 0 {
				break // the permits are there; the next call will see the context
			}
			return Decision{}, e
		}
		failure = err
	}
	if d.Granted == 0 {
		return c.denied(t, now, n, true, reached, unknownRetry, failure)
	}
	c.complete(&d, t, now)
	return d, nil
}

// knownDenial answers without asking Redis if it is certain that n permits are
// not free. For more than one it takes an outlook, because only that tells when
// they will be.
func (c *core) knownDenial(t *table, n, now int64) (Decision, bool) {
	var next int64
	if n == 1 {
		empty, _, first := t.shutOut(now)
		if !empty {
			return Decision{}, false
		}
		next = first
	} else {
		o := c.ahead.Load()
		if o == nil || now >= o.until {
			return Decision{}, false
		}
		if next = o.when(n, t.limit.Per); next <= now {
			return Decision{}, false
		}
	}
	d := c.denial(t, now, time.Duration(next-now))
	d.source = sourceMemory
	return d, true
}

// gone returns the error for a caller whose context or client has ended, nil if
// the call can go on to another shard.
func (c *core) gone(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrClosed) || c.client.closed.Load():
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// denied ends a call that no shard could serve: with a denial if at least one
// could be reached, else by the outage policy.
func (c *core) denied(t *table, now, n int64, upTo, reached bool, retry time.Duration, failure error) (Decision, error) {
	empty, reachable, next := t.shutOut(now)
	// A shard that was known to be empty when it was passed over may have got permits
	// back since. Then there is no outage, although nobody was asked.
	if !reached && !empty && (failure != nil || !reachable) {
		return c.outage(t, n, upTo, failure)
	}
	if n == 1 || upTo || retry <= 0 {
		retry = time.Duration(next - now)
		if !reachable {
			retry = t.limit.Per
		}
	}
	return c.denial(t, now, retry), nil
}

func (c *core) denial(t *table, now int64, retry time.Duration) Decision {
	return Decision{
		Limit:      t.limit.Permits,
		Remaining:  t.free(),
		RetryAfter: max(retry, minRetry),
		ResetAfter: t.resetAfter(now),
		core:       c,
	}
}

func (c *core) allowed(t *table, now int64, p part, ticket uint64) Decision {
	d := Decision{first: p, ticket: ticket, Granted: p.n}
	c.complete(&d, t, now)
	return d
}

// complete fills in what every granted decision tells.
func (c *core) complete(d *Decision, t *table, now int64) {
	d.Allowed = d.Granted > 0
	d.Limit = t.limit.Permits
	d.Remaining = t.free()
	d.ResetAfter = t.resetAfter(now)
	d.core = c
	d.until = now + int64(t.layout.Span())
	if c.ahead.Load() != nil {
		c.ahead.Store(nil) // the outlook has changed
	}
	c.local.granted(d.Granted)
}

// add puts what one shard granted to the decision.
func (d *Decision) add(p part, ticket uint64) {
	switch {
	case p.n == 0:
		return
	case d.Granted == 0:
		d.first, d.ticket = p, ticket
	default:
		d.more = append(d.more, p)
	}
	d.Granted += p.n
}
