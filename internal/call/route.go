package call

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// tally is what is known of the shards together.
type tally struct {
	shut, reachable int              // that have nothing for this participant, and that can be reached
	next            int64            // when the first of these has a permit again
	why             telemetry.Reason // why there is nothing
}

// tally returns what is known at a time of the shards. Of one that may have something, why it
// refuses counts if it answered since then.
func (v *view) tally(now, since int64) (t tally) {
	t.why = telemetry.Full
	for _, acc := range v.accounts {
		if !acc.Shard.Usable() {
			t.why = max(t.why, telemetry.Outage)
			continue
		}
		k, paced := &acc.Shard.Known, acc.PacedUntil()
		if at := max(k.FreeAt.Load(), paced); t.reachable == 0 || at < t.next {
			t.next = at
		}
		t.reachable++
		switch {
		case k.Shut(now):
			t.shut++
			t.why = max(t.why, k.Why())
		case now < paced:
			t.shut++
			t.why = max(t.why, telemetry.HeldForOthers)
		case k.Answered(since):
			t.why = max(t.why, k.Why())
		}
	}
	return t
}

// empty reports whether every shard that can be reached is known to have nothing for this
// participant.
func (t *tally) empty() bool { return t.shut > 0 && t.shut == t.reachable }

// foresees returns when n permits are next free by what is known, and why they are not. sure is
// that they are not. For more than one it takes an outlook, because only that tells when they will
// be.
func (v *view) foresees(n, now int64) (next int64, why telemetry.Reason, sure bool) {
	c, t := v.member.Target, v.tally(now, now+1)
	if n == 1 {
		return t.next, t.why, t.empty()
	}
	o := c.ahead.Load()
	if o == nil || now >= o.until || n > inForce(c, v.Routes) { // that is not to be waited for
		return 0, t.why, false
	}
	next = o.when(n, v.Limit.Per)
	return max(next, now+int64(v.Pause(now))), max(t.why, o.why), next > now
}

// Pause returns how long it takes until the first shard wants to see this participant again.
func (v *view) Pause(now int64) time.Duration {
	first := int64(math.MaxInt64)
	for _, acc := range v.accounts {
		first = min(first, max(acc.PacedUntil()-now, 0))
	}
	return time.Duration(first)
}

// heldFor returns after how long to ask again where a shard holds permits for others: when it may
// give this participant some, or the others may have more; 0: none does.
func (v *view) heldFor(now int64) (long time.Duration) {
	for _, acc := range v.accounts {
		left := min(time.Duration(acc.PacedUntil()-now), Believed(v.Routes))
		if acc.Shard.Usable() && left > 0 && (long == 0 || left < long) {
			long = left
		}
	}
	return long
}

// whole gets n permits or none, at one shard if one has them, else collected from several. Its
// first ask is not put on a batch as it is: a batch may take the whole call timeout, and the call
// may be late.
func (v *view) whole(ctx context.Context, q call, d *Decision) error {
	first := dispatch.Ask{N: q.n, Since: q.since, By: q.by}
	if picked, err := v.pickFirst(ctx, &first, d); !picked {
		return err
	}
	return v.finish(ctx, &first, first.Account.Ask(ctx, &first, v.member.Target.Process.Now()), d)
}

// turnBy returns the instant, on the client's clock, by which permits of a LeakyBucket are to act,
// or there are none and RetryAfter tells when they would; 0: whenever. That holds for what one
// shard can grant. For who waits as long as the queue can be no turn is too late.
func turnBy(r *limit.Routes, since, by int64) int64 {
	if r == nil || r.Limit.Algorithm != limit.LeakyBucket || r.Limit.Scope != limit.Global ||
		r.Limit.Mode != limit.Enforced ||
		float64(by-since) > float64(r.Limit.Most())/float64(r.Limit.Permits)*float64(r.Limit.Per) {
		return 0
	}
	return by
}

// pickFirst finds the shard for the first ask of a call, or decides the call without.
func (v *view) pickFirst(ctx context.Context, first *dispatch.Ask, d *Decision) (bool, error) {
	if first.N > 1 && v.KnownDenial(first.N, first.Since, d) {
		return false, nil
	}
	i := v.choose(first.Since, first.N, nil)
	if i >= 0 {
		first.Account = v.accounts[i]
		return true, nil
	}
	if first.N == 1 && v.KnownDenial(1, first.Since, d) {
		return false, nil
	}
	return false, v.unserved(ctx, first.N, first.Since, &attempt{now: first.Since, retry: dispatch.UnknownRetry}, d)
}

// attempt is what a call has seen so far at the shards that did not serve it.
type attempt struct {
	done    tried
	now     int64
	reached bool          // one of them has answered
	shed    bool          // one could not be asked in time, for the other calls of this process
	queued  bool          // one was busy with calls of this process until the call's time was up
	retry   time.Duration // the shortest that was told
	failure error         // of the last one that did not
	by      int64         // of the asks
}

// failed takes in why a shard did not answer a call that wants at least so many permits together.
// One for several whose time was up while the shard was answering others of this process has waited
// in a queue of ours. What kept a node from answering comes before that this process had too much
// to do.
func (a *attempt) failed(c *Target, acc *dispatch.Account, since, least int64, err error) {
	switch {
	case !errors.Is(err, dispatch.ErrOverloaded):
		a.failure = c.Failed(acc.Shard, err)
	case least > 1 && acc.Shard.Known.Answered(since+1):
		a.queued = true
	default:
		a.shed, a.failure = true, cmp.Or(a.failure, err)
	}
}

// why returns the reason of a denial after that, given the one that is known of the shards.
func (a *attempt) why(known telemetry.Reason) telemetry.Reason {
	switch {
	case a.shed || a.queued:
		return telemetry.Late
	case a.failure != nil:
		return max(known, telemetry.Outage)
	}
	return known
}

// told takes in when a shard may grant what it refused: its permits are there and the participant
// is not paced.
func (a *attempt) told(retry time.Duration) {
	if a.retry == dispatch.UnknownRetry || retry < a.retry {
		a.retry = retry
	}
}

// finish ends a call whose first ask was answered, or failed with err: it fills in that one shard
// granted everything, or goes on at other shards.
func (v *view) finish(ctx context.Context, next *dispatch.Ask, err error, d *Decision) error {
	c := v.member.Target
	if err == nil && next.Granted == next.N {
		d.Granted, d.ticket, d.Delay = next.Granted, next.Ticket, next.Delay
		d.first.Account, d.first.At, d.first.N = next.Account, next.At, next.Granted
		c.complete(d, v.Routes, next.Rest, next.Now)
		return nil
	}
	n, since, by, i := next.N, next.Since, next.By, v.place(next.Account)
	seen := attempt{retry: dispatch.UnknownRetry, by: by}
	refused := 0
	for {
		seen.done.add(i)
		if err == nil {
			seen.now, seen.reached = next.Now, true
			if v.accounts[i].Paced(seen.now) {
				refused++
			}
			if next.Retry != dispatch.UnknownRetry {
				seen.told(max(next.Retry, time.Duration(v.accounts[i].PacedUntil()-seen.now)))
			}
		} else {
			if e := c.Process.Gone(ctx, err); e != nil {
				return e
			}
			seen.failed(c, v.accounts[i], since, n, err)
			seen.now = c.Process.Now()
		}
		if refused == refusals || time.Duration(seen.now-since) >= c.Process.Config.CallTimeout {
			break
		}
		if i = v.choose(seen.now, n, &seen.done); i < 0 {
			break
		}
		*next = dispatch.Ask{N: n, Since: since, By: by}
		err = v.accounts[i].Ask(ctx, next, seen.now)
		if err == nil && next.Granted == n {
			return v.finish(ctx, next, nil, d)
		}
	}
	return v.unserved(ctx, n, since, &seen, d)
}

// unserved ends a call that no single shard could serve, or could be asked.
func (v *view) unserved(ctx context.Context, n, since int64, seen *attempt, d *Decision) (err error) {
	if n > 1 {
		// Without having asked: nothing is free, but not when n permits will be.
		known := v.tally(seen.now, seen.now+1)
		if (v.Split || known.empty() && !seen.reached) && !v.dueElsewhere(n, seen) {
			return v.collect(ctx, n, since, seen, d)
		}
	}
	return v.denied(ctx, seen, n, since, false, d)
}

// dueElsewhere reports whether this participant is paced, and n permits are such
// as one shard can grant. Then it gets them there when it is due for them. To
// collect them would cost part of its credit at every shard, mostly in vain.
//
// Then seen takes in when one that was not asked is to be. Others may have permits by now.
func (v *view) dueElsewhere(n int64, seen *attempt) bool {
	paced, fits, elsewhere := false, false, attempt{retry: dispatch.UnknownRetry}
	for i, acc := range v.accounts {
		paced = paced || acc.Paced(seen.now)
		if acc.Shard.Most() < n || !acc.Shard.Usable() {
			continue
		}
		fits = true
		if due := max(acc.PacedUntil(), acc.Shard.Known.FreeAt.Load()) - seen.now; !seen.done.has(i) {
			elsewhere.told(max(time.Duration(due), LeastPause))
		}
	}
	if paced && elsewhere.retry > 0 {
		seen.told(elsewhere.retry)
	}
	return paced && fits
}

// some gets as many permits as there are, up to n, from as many shards as it takes; the turns of a
// bucket from one, so that a shard that answers late holds none up that another gave.
func (v *view) some(ctx context.Context, q call, d *Decision) error {
	c, since := v.member.Target, q.since
	n, now := min(q.n, v.Limit.Most()), c.Process.Now()
	if v.KnownDenial(1, now, d) {
		return nil
	}
	seen := attempt{retry: dispatch.UnknownRetry}
	rest := int64(0)
	for d.Granted < n && time.Duration(now-since) < c.Process.Config.CallTimeout {
		i := v.choose(now, 1, &seen.done)
		if i < 0 {
			break
		}
		seen.done.add(i)
		acc := v.accounts[i]
		part := dispatch.Ask{N: n - d.Granted, UpTo: true, Since: since}
		err := acc.Ask(ctx, &part, now)
		now = c.Process.Now()
		if err == nil {
			seen.reached, rest = true, part.Rest
			d.add(acc, &part.Answer)
			if q.turns && d.Granted > 0 {
				break
			}
			continue
		}
		if e := c.Process.Gone(ctx, err); e != nil {
			if d.Granted > 0 {
				break // the permits are there; the next call will see the context
			}
			return e
		}
		seen.failed(c, acc, since, 1, err)
	}
	if d.Granted == 0 {
		seen.now = now
		return v.denied(ctx, &seen, n, since, true, d)
	}
	c.complete(d, v.Routes, rest, now)
	return nil
}

// KnownDenial answers without asking Redis if it is certain that n permits are
// not free.
func (v *view) KnownDenial(n, now int64, d *Decision) bool {
	c := v.member.Target
	if n > 1 && c.ahead.Load() == nil {
		return false
	}
	next, why, sure := v.foresees(n, now)
	if !sure {
		return false
	}
	c.RefreshAt(c.Process.Clock.ElapsedAt(now)) // else one that is paced for long hears of no change
	for _, acc := range v.accounts {
		acc.LookAgain(now)
	}
	c.Deny(v.Routes, now, time.Duration(next-now), why, d)
	d.Source = telemetry.Memory
	return true
}

// Why returns why n permits of a limit are believed not to be free.
func (m *Member) Why(r *limit.Routes, n int64) telemetry.Reason {
	_, why, _ := m.View(r).foresees(n, m.Target.Process.Now())
	return why
}

// awayRest is how long nothing is believed to be free of a limit whose shards are all away.
const awayRest = 250 * time.Millisecond

// Believed returns how long at the most permits of a limit are believed not to be free: above 0, as
// whoever waits sleeps for so long.
func Believed(r *limit.Routes) time.Duration {
	if len(r.Shards) == 0 {
		return awayRest
	}
	long := r.Shards[0].Known.ShutCap(r.Limit.Per)
	for _, sh := range r.Shards[1:] {
		long = min(long, sh.Known.ShutCap(r.Limit.Per))
	}
	return long
}

// Away reports whether shards of a limit cannot be asked, some or all.
func Away(r *limit.Routes) bool {
	return r != nil && slices.ContainsFunc(r.Shards, func(sh *dispatch.Shard) bool { return !sh.Usable() })
}

// Early reports whether permits of a limit came back early in the last window.
func Early(r *limit.Routes) bool {
	return r != nil && slices.ContainsFunc(r.Shards, func(sh *dispatch.Shard) bool { return sh.Known.Early() })
}

// Lacks returns how long n permits of a limit are believed not to be free, without asking anybody;
// 0 if they may be.
func (m *Member) Lacks(r *limit.Routes, n int64) time.Duration {
	now := m.Target.Process.Now()
	if r == nil || r.Limit.Mode.Lenient() || r.Spare() >= n || m.Leases.Have(r, n, now) {
		return 0
	}
	next, _, _ := m.View(r).foresees(n, now)
	return time.Duration(max(0, next-now))
}
