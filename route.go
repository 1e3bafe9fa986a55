package shardlimit

import (
	"context"
	"errors"
	"time"
)

// How a process spreads its calls while shards have room. Under load it uses the
// first few of its order, so that calls meet in batches. A call that finds these
// almost idle has nobody to meet: it goes to one that changes turn by turn, so that in the
// long run every shard gets as much. A process takes turns among so many shards that
// each has enough participants for chance to even them out (with 250 the busiest of
// 64 shards gets about a sixth more than the mean), and no more, so that a node
// serves a bounded number of processes however many shards there are.
const (
	preferred = 2   // shards under load
	crowd     = 250 // participants that take turns at a shard
	turn      = 16 * time.Millisecond
)

// minRetry keeps RetryAfter of a denial above zero.
const minRetry = 10 * time.Microsecond

// tried marks the lanes, by their place in table.order, that a call is done with.
type tried [MaxShards / 64]uint64

func (t *tried) add(i int)      { t[i/64] |= 1 << (i % 64) }
func (t *tried) has(i int) bool { return t[i/64]&(1<<(i%64)) != 0 }

// choose picks the next shard for a call: of the first few in the participant's
// order that may have room, the one with the fewest calls waiting; if these are
// almost idle, one whose turn it is. size is the least share that is of use. It
// returns -1 when there is none left.
func (t *table) choose(now int64, size int64, done *tried) int {
	best, seen := -1, 0
	var least, all int64
	for i := range t.order {
		if !t.open(i, now, size, done) {
			continue
		}
		waiting := t.order[i].waiting.Load()
		if best < 0 || waiting < least {
			best, least = i, waiting
		}
		all += waiting
		if seen++; seen == preferred {
			break
		}
	}
	if seen < preferred || all >= preferred {
		return best
	}
	for k := range int64(preferred) {
		if i := t.turn(now, k); t.open(i, now, size, done) && t.order[i].waiting.Load() == 0 {
			return i
		}
	}
	return best
}

// open reports whether a call may go to the shard at this place of the order.
func (t *table) open(i int, now, size int64, done *tried) bool {
	l := t.order[i]
	return !done.has(i) && !l.known.shut(now) && l.terms.Load().most >= size && l.ready(now)
}

// turn is the place in the order of the shard whose turn it is, or k turns later.
func (t *table) turn(now, k int64) int {
	shards := int64(len(t.order))
	reach := (crowd*shards-1)/max(t.participants.Load(), 1) + 1
	return int((now/int64(turn) + k) % min(max(reach, preferred), shards))
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
func (c *core) whole(ctx context.Context, t *table, n, since int64, d *Decision) error {
	if t.limit.Scope == PerParticipant {
		c.apart(&t.limit, n, false, d)
		return nil
	}
	if n > 1 && c.knownDenial(t, n, since, d) {
		return nil
	}
	var done tried
	i := t.choose(since, n, &done)
	if i < 0 {
		if n == 1 && c.knownDenial(t, 1, since, d) {
			return nil
		}
		return c.unserved(ctx, t, n, since, &attempt{now: since, retry: unknownRetry}, d)
	}
	l := t.order[i]
	ans, err := l.ask(ctx, n, false, since, since)
	if err == nil && ans.granted == n {
		c.take(t, l, &ans, d)
		return nil
	}
	return c.spill(ctx, t, n, since, i, &ans, err, d)
}

// attempt is what a call has seen so far at the shards that did not serve it.
type attempt struct {
	done    tried
	now     int64
	reached bool          // one of them has answered
	retry   time.Duration // the shortest that was told
	failure error         // of the last one that did not
}

// spill goes on with a call at other shards after the shard i has answered this.
func (c *core) spill(ctx context.Context, t *table, n, since int64, i int, ans *answer, err error, d *Decision) error {
	seen := attempt{retry: unknownRetry}
	for i >= 0 {
		seen.done.add(i)
		if err == nil {
			seen.now, seen.reached = ans.now, true
			if ans.retry != unknownRetry && (seen.retry == unknownRetry || ans.retry < seen.retry) {
				seen.retry = ans.retry
			}
		} else {
			if e := c.gone(ctx, err); e != nil {
				return e
			}
			seen.failure, seen.now = err, c.client.now()
		}
		if i = t.choose(seen.now, n, &seen.done); i < 0 {
			break
		}
		l := t.order[i]
		*ans, err = l.ask(ctx, n, false, since, seen.now)
		if err == nil && ans.granted == n {
			c.take(t, l, ans, d)
			return nil
		}
	}
	return c.unserved(ctx, t, n, since, &seen, d)
}

// unserved ends a call that no single shard could serve, or could be asked.
func (c *core) unserved(ctx context.Context, t *table, n, since int64, seen *attempt, d *Decision) (err error) {
	if n > 1 {
		// Without having asked: nothing is free, but not when n permits will be.
		if empty, _, _ := t.shutOut(seen.now); t.split || empty && !seen.reached {
			*d, err = c.gather(ctx, t, n, since, seen.failure)
			return err
		}
	}
	return c.denied(t, seen.now, n, false, seen.reached, seen.retry, seen.failure, d)
}

// take fills in that one shard granted everything.
func (c *core) take(t *table, l *lane, ans *answer, d *Decision) {
	d.Granted, d.ticket, d.Delay = ans.granted, ans.ticket, ans.delay
	d.first.lane, d.first.at, d.first.n = l, ans.at, ans.granted
	c.complete(d, t, ans.now)
}

// some gets as many permits as there are, up to n, from as many shards as it takes.
func (c *core) some(ctx context.Context, t *table, n, since int64, d *Decision) error {
	if t.limit.Scope == PerParticipant {
		c.apart(&t.limit, n, true, d)
		return nil
	}
	now := since
	n = min(n, t.limit.most())
	if c.knownDenial(t, 1, now, d) {
		return nil
	}
	var done tried
	var failure error
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
			d.add(l, &ans)
			continue
		}
		if e := c.gone(ctx, err); e != nil {
			if d.Granted > 0 {
				break // the permits are there; the next call will see the context
			}
			return e
		}
		failure = err
	}
	if d.Granted == 0 {
		return c.denied(t, now, n, true, reached, unknownRetry, failure, d)
	}
	c.complete(d, t, now)
	return nil
}

// knownDenial answers without asking Redis if it is certain that n permits are
// not free. For more than one it takes an outlook, because only that tells when
// they will be.
func (c *core) knownDenial(t *table, n, now int64, d *Decision) bool {
	var next int64
	if n == 1 {
		empty, _, first := t.shutOut(now)
		if !empty {
			return false
		}
		next = first
	} else {
		o := c.ahead.Load()
		if o == nil || now >= o.until {
			return false
		}
		if next = o.when(n, t.limit.Per); next <= now {
			return false
		}
	}
	c.deny(t, now, time.Duration(next-now), d)
	d.source = sourceMemory
	return true
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
func (c *core) denied(t *table, now, n int64, upTo, reached bool, retry time.Duration, failure error, d *Decision) (err error) {
	empty, reachable, next := t.shutOut(now)
	// A shard that was known to be empty when it was passed over may have got permits
	// back since. Then there is no outage, although nobody was asked.
	if !reached && !empty && (failure != nil || !reachable) {
		*d, err = c.outage(t, n, upTo, failure)
		return err
	}
	if n == 1 || upTo || retry <= 0 {
		retry = time.Duration(next - now)
		if !reachable {
			retry = t.limit.Per
		}
	}
	c.deny(t, now, retry, d)
	return nil
}

// deny fills in a denial.
func (c *core) deny(t *table, now int64, retry time.Duration, d *Decision) {
	d.Limit, d.Remaining = t.limit.Permits, t.free()
	d.RetryAfter, d.ResetAfter = max(retry, minRetry), t.resetAfter(now)
	d.core = c
}

// complete fills in what every granted decision tells.
func (c *core) complete(d *Decision, t *table, now int64) {
	d.Allowed = d.Granted > 0
	d.Limit = t.limit.Permits
	d.Remaining = t.free()
	d.ResetAfter = t.resetAfter(now)
	d.core = c
	d.until = now + int64(t.limit.memory())
	if c.ahead.Load() != nil {
		c.ahead.Store(nil) // the outlook has changed
	}
	c.local.granted(d.Granted)
}

// add puts what one shard granted to the decision. It may act when the last of its permits may.
func (d *Decision) add(l *lane, ans *answer) {
	d.Delay = max(d.Delay, ans.delay)
	d.addPart(part{l, ans.at, ans.granted}, ans.ticket)
}

func (d *Decision) addPart(p part, ticket uint64) {
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
