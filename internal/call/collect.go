package call

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// collectTries is how often a collection asks if it has seen that everything it wants is free.
const collectTries = 4

// LeastPause is the shortest RetryAfter of a collection that was told that all is free, and did not
// get it: a shard may answer a Peek and fail every ask.
const LeastPause = time.Millisecond

// collect collects n permits from several shards, and gives everything back if the sum falls short.
//
// It asks at once all shards that may have them, by what this process knows, and again those that
// had all that they were asked for. If the sum falls short, it gives back what it got and looks
// when there are so many. If they are free together then, another process collected at the same
// time, and each had a part: so it begins anew after a while, which is drawn at random. Within a
// process one collection runs at a time.
func (v *view) collect(ctx context.Context, n, since int64, seen *attempt, d *Decision) error {
	c := v.member.Target
	if seen.now-since > c.Process.Dispatch.MaxAge() {
		return v.denied(ctx, seen, n, since, false, d)
	}
	g := collection{target: c, view: v, n: n, since: since, seen: seen}
	if err := g.join(ctx); errors.Is(err, dispatch.ErrOverloaded) {
		if seen.now = c.Process.Now(); v.KnownDenial(n, seen.now, d) {
			return nil
		}
		seen.queued = true
		return v.denied(ctx, seen, n, since, false, d)
	} else if err != nil {
		return err
	}
	defer func() { <-c.rare().collect }()
	if v.KnownDenial(n, c.Process.Now(), d) {
		return nil // the collection before this one has found out
	}
	for try := range collectTries {
		began := c.Process.Now()
		err := g.take(ctx)
		now := c.Process.Now()
		if err == nil && g.lacks() == 0 {
			*d = g.got
			c.complete(d, v.Routes, v.Expected(now), now)
			return nil
		}
		if g.got.Granted > 0 {
			c.HandBack(ctx, g.got, since, false)
			g.got = Decision{}
		}
		if err != nil {
			return err
		}
		g.outlook, g.empty = c.Look(ctx, v.Routes, since), tried{}
		left := since + c.Process.Dispatch.MaxAge() - c.Process.Now()
		paced := slices.ContainsFunc(v.accounts, func(acc *dispatch.Account) bool { return acc.Paced(now) })
		if g.outlook.Free < n || paced || left <= 0 {
			break
		}
		clock.Sleep(ctx, time.Duration(min(chance.N((now-began)<<try+1), left)))
	}
	return g.denied(ctx, d)
}

// join waits until no other collection is under way, at most until ctx ends or
// the call that began at since is too old to begin one.
func (g *collection) join(ctx context.Context) error {
	c := g.target
	left := time.Duration(g.since + c.Process.Dispatch.MaxAge() - c.Process.Now())
	ctx, cancel := context.WithTimeoutCause(ctx, left, dispatch.ErrOverloaded)
	defer cancel()
	select {
	case c.rare().collect <- struct{}{}:
		return nil
	case <-ctx.Done():
		return clock.Ended(ctx)
	case <-c.Process.Context.Done():
		return limit.ErrClosed
	}
}

// collection is one call that collects permits.
type collection struct {
	target  *Target
	view    *view
	n       int64
	since   int64
	seen    *attempt
	got     Decision
	empty   tried    // by place in view.accounts: asked, and had less than was asked for
	outlook *outlook // the last look at the shards
}

// lacks returns how many permits it has not got yet.
func (g *collection) lacks() int64 { return g.n - g.got.Granted }

// take asks for everything at once, and again for what is missing then. The error is the caller's
// end.
func (g *collection) take(ctx context.Context) error {
	for g.lacks() > 0 {
		now := g.target.Process.Now()
		wanted := g.plan(now)
		if len(wanted) == 0 || now-g.since > g.target.Process.Dispatch.MaxAge() {
			return nil
		}
		if err := g.ask(ctx, wanted); err != nil {
			return err
		}
	}
	return nil
}

// plan returns what to ask each shard for: what it is believed to have, in this participant's
// order, as far as it is needed. What is lacking then is asked of all alike: shards may have more,
// and that counts the demand at each.
func (g *collection) plan(now int64) (wanted []dispatch.Part) {
	lacks := g.lacks()
	for i, acc := range g.view.accounts {
		// A shard that paces this participant may yet have some of the permits.
		if g.empty.has(i) || !acc.Shard.Usable() {
			continue
		}
		if acc.Shard.Known.Shut(now) {
			g.seen.reached = true
			continue
		}
		n := min(acc.Shard.Expected(now), lacks)
		lacks -= n
		wanted = append(wanted, dispatch.Part{Account: acc, N: n})
	}
	for k := range wanted {
		more := lacks / int64(len(wanted)-k)
		wanted[k].N += more
		lacks -= more
	}
	return slices.DeleteFunc(wanted, func(p dispatch.Part) bool { return p.N == 0 })
}

// ask asks each shard for its part, all at once. The error is the caller's end.
func (g *collection) ask(ctx context.Context, wanted []dispatch.Part) (ended error) {
	asks, errs := make([]dispatch.Ask, len(wanted)), make([]error, len(wanted))
	now := g.target.Process.Now()
	var wg sync.WaitGroup
	for i, w := range wanted {
		asks[i] = dispatch.Ask{N: w.N, UpTo: true, Since: g.since}
		wg.Go(func() { errs[i] = w.Account.Ask(ctx, &asks[i], now) })
	}
	wg.Wait()
	for i, w := range wanted {
		switch e := g.target.Process.Gone(ctx, errs[i]); {
		case errs[i] == nil:
			g.seen.reached = true
			g.got.add(w.Account, &asks[i].Answer)
		case e != nil:
			ended = e
		default:
			g.seen.failed(g.target, w.Account, g.since, g.n, errs[i])
		}
		if asks[i].Granted < w.N {
			g.empty.add(g.view.place(w.Account))
		}
	}
	return ended
}

// denied ends a collection that did not come to n permits.
func (g *collection) denied(ctx context.Context, d *Decision) error {
	c, now := g.target, g.target.Process.Now()
	if g.seen.now = now; !g.seen.reached {
		return g.view.denied(ctx, g.seen, g.n, g.since, false, d)
	}
	if err := c.Process.Gone(ctx, nil); err != nil {
		return err
	}
	wait := max(time.Duration(now-g.since), g.view.heldFor(now), LeastPause) // others collect, too
	why := g.view.tally(now, g.since).why
	if g.outlook.Free < g.n {
		wait, why = g.outlook.Await(c, g.view.Routes, g.n), max(why, g.outlook.why)
	}
	c.Deny(g.view.Routes, now, max(wait, g.view.Pause(now)), g.seen.why(why), d)
	return nil
}
