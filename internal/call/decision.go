package call

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Decision is the answer to one call. It is large, so the way of a call fills it in place.
type Decision struct {
	Answer
	Origin
}

// Answer is what a Decision tells, see shardlimit.Decision.
type Answer struct {
	Allowed, Degraded, Shadowed bool
	Reason                      telemetry.Reason

	Granted, Limit, Remaining                int64
	Delay, RetryAfter, NextAfter, ResetAfter time.Duration
}

// Origin is what Settle must know of a decision.
type Origin struct {
	Mode    limit.Mode // by which it was decided
	Source  telemetry.Source
	Target  *Target       // of a key that was asked for alone, the family's
	key     string        // that was; "": none
	ticket  uint64        // of the first part; see origin
	first   dispatch.Part // that a shard granted
	asked   clock.Elapsed // who waited was not granted it before
	Joint   *[]Decision   // what the limits of a Set said
	special *special      // nil for most; see rarely
}

// special is what few decisions have. Copies of a decision share it, so only settled changes.
type special struct {
	more    []dispatch.Part // when permits were collected from several shards
	engine  *local.Engine   // when this process decided by itself
	era     int64           // see local.Receipt
	settled atomic.Bool     // with an engine
	handed  *Handed         // when another process made it
	lease   *lease          // when the permits were held in advance; ticket is then their place in it
}

var ordinary special

// rarely returns what few decisions have, which is only to be read.
func (o *Origin) rarely() *special {
	if o.special == nil {
		return &ordinary
	}
	return o.special
}

// This file fills in what a call is answered.

// minRetry keeps RetryAfter of a denial above zero.
const minRetry = 10 * time.Microsecond

// refusals is after how many shards a call gives up that kept their permits for
// others: while participants contend, one that asks everywhere costs much and gains nothing.
const refusals = 4

// denied ends a call that began at since and that no shard could serve: with a denial if at least
// one could be reached, else by the outage policy. A call that has waited in a queue of this
// process is to come back after as long as that took. One that met only a failing shard comes back
// after a call timeout.
func (v *view) denied(ctx context.Context, seen *attempt, n, since int64, upTo bool, d *Decision) (err error) {
	now, retry := seen.now, seen.retry
	t := v.tally(now, since)
	// There is no outage while one shard is known to have nothing, though another fails. Nor is
	// there one where a shard that was passed over as empty has got permits back since.
	if !seen.reached && !seen.queued && t.shut == 0 && (seen.failure != nil || t.reachable == 0) {
		v.member.Target.Refresh() // nobody else would hear that nodes are back
		if seen.shed {
			if err := park(ctx, v.member.Target, since); err != nil {
				return err
			}
		}
		*d, err = v.member.outage(v.Routes, n, upTo, seen.failure)
		return err
	}
	if c, most := v.member.Target, inForce(v.member.Target, v.Routes); seen.reached && !upTo && n > most {
		if !v.Limit.Algorithm.Bursty() {
			return c.TooMany(n, most)
		}
		if retry < 0 {
			retry = v.Limit.Per // nobody knows how large a burst it has
		}
	}
	if retry < 0 && seen.reached && n > 1 && !upTo { // a shard has less in force: more may be on its way there
		retry = max(time.Duration(t.next-now), Believed(v.Routes))
	}
	if (n == 1 || upTo) && seen.by == 0 || retry <= 0 {
		retry = time.Duration(t.next - now)
		if t.reachable == 0 {
			retry = v.Limit.Per
		}
	}
	switch {
	case seen.queued:
		retry = max(retry, time.Duration(now-since))
	case seen.shed:
		retry = max(retry, v.member.Target.Process.Config.CallTimeout)
	case seen.failure != nil && !seen.reached:
		retry = v.member.Target.Process.Config.CallTimeout
	}
	v.member.Target.Deny(v.Routes, now, retry, seen.why(t.why), d)
	return nil
}

// park keeps a call that was shed until its time is up.
func park(ctx context.Context, c *Target, since int64) error {
	left := c.Process.Config.CallTimeout - time.Duration(c.Process.Now()-since)
	if at, ends := ctx.Deadline(); ends { // its caller is to hear the answer
		left = min(left, time.Until(at)*7/8)
	}
	c.Process.Dispatch.Park(ctx, left)
	return c.Process.Gone(ctx, nil)
}

// inForce returns how many permits the limit has in a window. A key's shard knows that: another
// caller may have brought another limit.
func inForce(c *Target, r *limit.Routes) int64 {
	if c.Family != nil && len(r.Shards) == 1 {
		return cmp.Or(r.Shards[0].Known.Target.Load(), r.Limit.Permits)
	}
	return r.Limit.Permits
}

// Deny fills in a denial.
func (c *Target) Deny(r *limit.Routes, now int64, retry time.Duration, why telemetry.Reason, d *Decision) {
	d.Reason = why
	d.Limit, d.Remaining = inForce(c, r), r.Free()
	d.RetryAfter, d.ResetAfter = max(retry, minRetry), r.ResetAfter(now)
	d.Target = c
}

// complete fills in what every granted decision tells, and notes what it was granted. rest is what
// is free after it.
func (c *Target) complete(d *Decision, r *limit.Routes, rest, now int64) {
	d.Allowed = d.Granted > 0
	d.Limit = inForce(c, r)
	d.Remaining = rest
	if rest <= 0 {
		d.NextAfter = r.NextAfter(now)
	}
	d.ResetAfter = r.ResetAfter(now)
	d.Target = c
	if c.ahead.Load() != nil {
		c.ahead.Store(nil) // the outlook has changed
	}
	noteGranted(c, d.Granted)
}

// noteGranted notes what shards granted, so that an outage does not hand it out again.
func noteGranted(c *Target, n int64) {
	r := c.Routes.Load() // nil: deleted just now
	if c.Process.Config.OnOutage == limit.FailLocal && n > 0 && r != nil {
		c.rare().own.Take(c.OwnPart(r.Limit).Local(), n, true)
	}
}

// add puts what one shard granted to the decision. It may act when the last of its permits may.
func (d *Decision) add(acc *dispatch.Account, ans *dispatch.Answer) {
	p := dispatch.Part{Account: acc, At: ans.At, N: ans.Granted}
	if ans.Delay > 0 {
		p.First, p.Last = ans.Now+int64(ans.First), ans.Now+int64(ans.Delay)
		d.Delay = max(d.Delay, ans.Delay)
	}
	d.addPart(p, ans.Ticket)
}

func (d *Decision) addPart(p dispatch.Part, ticket uint64) {
	switch {
	case p.N == 0:
		return
	case d.Granted == 0:
		d.first, d.ticket = p, ticket
	default:
		if d.special == nil {
			d.special = &special{}
		}
		d.special.more = append(d.special.more, p)
	}
	d.Granted += p.N
}

func (d *Decision) addParts(parts []dispatch.Part, ticket uint64) {
	for _, p := range parts {
		d.addPart(p, ticket)
	}
}
