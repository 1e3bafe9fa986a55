package call

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// withoutTarget decides a call for a key that has no Target in this process, as most keys have
// none. A remembered denial answers it, or a key ask does, if few others in the process ask for the
// key.
//
// A call goes on with a Target if answered is false. Then q tells since when, and why the shard did
// not answer if it was asked.
func (l *Limiter) withoutTarget(ctx context.Context, q *call, d *Decision) (answered bool, err error) {
	f, c := l.family, l.Target
	now := c.Process.Now()
	own := l.key.Came == (limit.Keyed{}).Came && l.invalid == nil && q.n > 0 && q.n <= limit.MaxPermits
	a := asking{of: f, key: l.key, hash: f.keys.hash(l.key.Key), n: q.n}
	p := f.keys.part(a.hash)
	if found, denied := p.recall(l.key.Key, now); denied {
		return own && (q.n == 1 || q.upTo) && f.denies(ctx, &found, q.n, now, d), nil
	}
	if !own || q.upTo || limit.CheckName("key", l.key.Key) != nil || !f.mayAsk(ctx, now) || !a.place() {
		return false, nil
	}
	switch {
	case !a.plan.Account.Crowded(now):
		if a.plan.Account.AsksKeys() && p.begin(&a) {
			return a.ask(ctx, q, now, d)
		}
	case c.Process.Config.OnOutage != limit.FailOpen && !p.holds(l.key): // else others may wait, whom it can join
		return true, Shed(ctx, c, a.plan.Account, a.n, now, d)
	}
	return false, nil
}

// asking is a key that is asked for alone.
type asking struct {
	of     *Family
	key    limit.Keyed
	hash   uint64
	n      int64         // permits
	routes *limit.Routes // of the family
	plan   *limit.Plan   // of the key
}

// place finds out where the key is, and reports whether it can be asked there for so many permits.
func (a *asking) place() bool {
	if a.routes = a.of.Target.Routes.Load(); a.routes == nil {
		return false
	}
	a.plan = a.of.PlanOfKey(a.routes, a.of.keys.prefix, a.key.Key)
	return a.plan != nil && (a.n == 1 || a.n <= a.plan.Limit.Most()) && a.plan.Account.Shard.Usable()
}

// recall returns the denial that is remembered of a key, if it is not over.
func (p *keyPart) recall(key string, now int64) (found denial, denied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, denied = p.denied[key]
	return found, denied && !found.Over(now)
}

// begin notes that a key is asked for alone, until end, and reports whether it may be: few others
// do, it has no Target, and since these began it had none, and none of them found permits.
func (p *keyPart) begin(a *asking) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	asks := p.asked[a.hash]
	if p.targets[a.key] != nil || asks.n == mostAlone || asks.disturbed {
		return false
	}
	if p.asked == nil {
		p.asked = make(map[uint64]alone)
	}
	asks.n++
	p.asked[a.hash] = asks
	return true
}

// holds reports whether a key has a Target.
func (p *keyPart) holds(k limit.Keyed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[k] != nil
}

// end ends what begin began.
func (p *keyPart) end(hash uint64) {
	p.mu.Lock()
	p.ended(hash, false)
	p.mu.Unlock()
}

// ended is end, and reports whether a denial is not to be remembered: the key had a Target since,
// or somebody else found permits. found tells that this ask did. p.mu is held.
func (p *keyPart) ended(hash uint64, found bool) (disturbed bool) {
	asks := p.asked[hash]
	disturbed = asks.disturbed
	asks.n, asks.disturbed = asks.n-1, disturbed || found
	if p.asked[hash] = asks; asks.n == 0 {
		delete(p.asked, hash)
	}
	return disturbed
}

// mayAsk reports whether calls without a Target are answered now. The record is read again in good
// time.
func (f *Family) mayAsk(ctx context.Context, now int64) bool {
	c := f.Target
	elapsed := c.Process.Clock.ElapsedAt(now)
	if ctx.Err() != nil || c.Process.Closed.Load() || c.Record().Expired(elapsed) {
		return false
	}
	c.RefreshAt(elapsed)
	return true
}

// denies denies a call from memory, if what is remembered holds for whoever asks.
func (f *Family) denies(ctx context.Context, found *denial, n, now int64, d *Decision) bool {
	c := f.Target
	if found.of != c.Routes.Load() || !f.mayAsk(ctx, now) {
		return false
	}
	*d = Decision{Answer{Limit: found.Target, RetryAfter: max(time.Duration(found.FreeAt-now), minRetry),
		ResetAfter: max(time.Duration(found.ResetAt-now), 0), Reason: found.Why},
		Origin{Source: telemetry.Memory, Target: c}}
	c.decided(ctx, d, n, now, nil)
	return true
}

func (a *asking) ask(ctx context.Context, q *call, now int64, d *Decision) (answered bool, err error) {
	c, p := a.of.Target, a.of.keys.part(a.hash)
	q.since, q.asked = now, true
	sh := a.plan.Account.Shard
	ask, heard := a.plan.Account.AskKey(ctx, sh.Space.Keys(a.of.keys.prefix, a.key.Key), a.n, now)
	if !heard && ask.Leave(a.left(ask)) {
		err = c.Process.Gone(ctx, clock.Ended(ctx))
		c.decided(ctx, d, a.n, now, err)
		return true, err
	}
	if err = ask.Err(); err == nil && ask.Granted == 0 && a.outdated() {
		err = dispatch.ErrNotPlain
	}
	if err != nil {
		p.end(a.hash)
		ask.Free()
		switch {
		case errors.Is(err, dispatch.ErrOverloaded) && c.Process.Config.OnOutage != limit.FailOpen && !a.outdated():
			return true, Shed(ctx, c, nil, a.n, now, d)
		case !errors.Is(err, dispatch.ErrNotPlain):
			q.failure = err
		}
		return false, nil
	}
	a.answered(ask, d)
	c.decided(ctx, d, a.n, now, err)
	return true, err
}

// answered fills in what the shard said, and remembers what a later call must know.
func (a *asking) answered(ask *dispatch.KeyAsk, d *Decision) {
	f, p, known, now := a.of, a.of.keys.part(a.hash), &ask.Known, ask.Now
	next := time.Duration(known.FreeAt.Load() - now)
	d.Limit = cmp.Or(known.Target.Load(), a.plan.Limit.Permits)
	d.ResetAfter = max(time.Duration(known.ResetAt.Load()-now), 0)
	d.Target = f.Target
	p.mu.Lock()
	// Of two that were under way together nobody knows which one the shard served first.
	found := ask.Granted > 0 || ask.Rest > 0
	disturbed := p.ended(a.hash, found)
	if found {
		delete(p.denied, a.key.Key)
	}
	if ask.Granted > 0 {
		d.Allowed, d.Granted, d.Remaining, d.ticket, d.key = true, ask.Granted, ask.Rest, ask.Ticket, a.key.Key
		d.first = dispatch.Part{Account: a.plan.Account, At: ask.At, N: ask.Granted}
		if d.Remaining <= 0 {
			d.NextAfter = max(next, 0)
		}
	} else {
		if d.Remaining = ask.Rest; a.n > 1 {
			next = ask.Retry
		}
		d.RetryAfter, d.Reason = max(next, minRetry), known.Why()
		if denied, ok := known.Denied(now); ok && !disturbed {
			p.denies(f, a.key.Key, denial{denied, a.routes})
		}
	}
	p.mu.Unlock()
	if known.Rare.Load() { // the next call is for who knows that
		c := f.keys.hold(f, a.key, nil)
		if r := c.Known(); r != nil && len(r.Shards) == 1 {
			r.Shards[0].Known.Rare.Store(true)
		}
		c.Release()
	}
	ask.Free()
}

// outdated reports whether the family is known to have another limit by now.
func (a *asking) outdated() bool {
	c := a.of.Target
	return c.Routes.Load() != a.routes || c.Record().Highest.Load() > a.plan.Layout.Epoch
}

// left returns what becomes of the answer of a caller who has left: what it was granted is given
// back.
func (a *asking) left(ask *dispatch.KeyAsk) func(dispatch.Part) {
	f, key, hash := a.of, a.key, a.hash
	return func(part dispatch.Part) {
		f.keys.part(hash).end(hash)
		ask.Free()
		if part.N == 0 {
			return
		}
		c := f.Target
		if !c.Process.Spawn(func(context.Context) {
			of := f.keys.hold(f, key, nil)
			defer of.Release()
			of.Known()
			of.GiveBack([]dispatch.Part{part})
		}) { // after Close
			c.Process.Telemetry.Lost(c.Metrics, part.N)
		}
	}
}
