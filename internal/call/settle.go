package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// leastReturn bounds the return of permits that nobody waits for any more, unless calls may take
// longer.
const leastReturn = time.Second

// Settle makes what a decision was granted what was used.
func (l *Limiter) Settle(ctx context.Context, d *Decision, used int64) error {
	c := l.Hold().Target
	defer c.Release()
	return c.settle(ctx, d, settlement{used: used})
}

// settle does what Settle does, for a settlement that says what was used.
func (c *Target) settle(ctx context.Context, d *Decision, s settlement) error {
	used := s.used
	switch {
	case c.Process.Closed.Load():
		return limit.ErrClosed
	case c.Invalid != nil:
		return c.Invalid
	case used < 0 || used > limit.MaxPermits:
		return fmt.Errorf("%w: %d used, that must be 0 to %d", limit.ErrInvalidPermits, used,
			int64(limit.MaxPermits))
	case d.Granted == 0:
		return nil
	case d.Joint != nil:
		return fmt.Errorf("%w: settle it with its Set, not with %q", limit.ErrOtherLimiter, c.Title())
	case d.Target != nil && (d.Target.Process != c.Process || d.id() != c.ID),
		d.rarely().handed != nil && d.rarely().handed.Limiter != xxhash.Sum64String(c.ID):
		return fmt.Errorf("%w: settle it with the Limiter that made it, not with %q", limit.ErrOtherLimiter, c.Title())
	case used == d.Granted:
		return nil
	case d.rarely().engine != nil:
		return d.settleHere(used)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Process.Config.CallTimeout)
	defer cancel()
	s.target, s.by, s.keep = c, d.Target, cmp.Or(s.keep, c.LimitNow().Memory()+time.Second)
	if d.key != "" {
		s.by = c
	}
	parts := s.parts(ctx, d)
	switch {
	case d.key != "" && !there(parts[0]): // it was asked alone, and its node is not known any more
		return c.FailedAt(d.first.Account.Shard.Site.Location, node.ErrAway)
	case !slices.ContainsFunc(parts, there): // nobody counts it, or its shards are gone
		return nil
	case used > d.Granted:
		return s.charge(ctx, parts, used-d.Granted)
	}
	return s.giveBack(ctx, parts, beyond(parts, used))
}

// beyond returns how many permits of the parts were not used. In Shadow they may be fewer than were
// granted.
func beyond(parts []dispatch.Part, used int64) int64 {
	for _, p := range parts {
		used -= p.N
	}
	return max(-used, 0)
}

// id returns the id of the limit that decided.
func (d *Decision) id() string {
	if d.key != "" {
		return d.Target.Of.keys.prefix + d.key
	}
	return d.Target.ID
}

// settlement is one Settle under way.
type settlement struct {
	target *Target
	by     *Target // what made the decision; nil: another process did
	used   int64
	unpaid bool          // the participant's credit does not have what comes back
	keep   time.Duration // for how long it is remembered; 0: for as long as the grant can count
	mark   string        // the name of the decision
}

// there reports whether the part is of a shard that is in the layout.
func there(p dispatch.Part) bool { return p.Account != nil }

// parts returns those of the decision. Of one that was handed over, those have no account whose
// shards have left the layout: they keep their places, which are in the names of marks, and the
// permits that came back there.
func (s *settlement) parts(ctx context.Context, d *Decision) (parts []dispatch.Part) {
	h := d.rarely().handed
	if h == nil {
		if parts = d.partsIn(s.target); len(parts) > 0 {
			s.mark = markOf(d.origin())
		}
		return parts
	}
	s.mark = markOf(h.Nonce, h.Ticket)
	r, _ := s.target.InUse(ctx)
	if r == nil {
		return nil
	}
	who := &dispatch.Participant{ID: fmt.Sprintf("%016x", h.Participant), Weight: 1000}
	for _, p := range h.parts {
		part := dispatch.Part{At: clock.ServerTime(p.At), N: p.N}
		i := slices.IndexFunc(r.Layout.Shards, func(s shard.Shard) bool { return siteHash(s.Site()) == p.Site })
		if i >= 0 {
			if sh := s.target.ShardAt(r.Layout.Shards[i].Site()); sh != nil {
				part.Account = dispatch.NewAccount(who, sh)
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// partsIn returns the parts of the decision, at the shards that the process knows now: of a
// key they may be others than those that granted it.
func (d *Decision) partsIn(c *Target) []dispatch.Part {
	parts := d.parts()
	if c.Family == nil {
		return parts
	}
	for i, p := range parts {
		sh := c.ShardAt(p.Account.Shard.Site)
		switch {
		case sh != nil && sh != p.Account.Shard:
			parts[i].Account = p.Account.At(sh)
		case sh == nil && p.Account.Shard.Ref == script.ShardRef{}:
			parts[i].Account = nil
		}
	}
	return parts
}

// markOf returns the name of a decision, which no other decision has.
func markOf(nonce, ticket uint64) string {
	return strconv.FormatUint(nonce, 36) + "-" + strconv.FormatUint(ticket, 36)
}

// origin returns what tells the decision from every other one.
func (d *Decision) origin() (nonce, ticket uint64) {
	switch {
	case d.rarely().lease != nil:
		return d.special.lease.nonce, d.ticket
	case d.ticket>>63 == 1: // see OwnTicket
		return d.Target.rare().nonce, d.ticket
	}
	return d.first.Account.Shard.Nonce, d.ticket
}

// forShard returns one shard's part of the settlement. place tells the parts of a decision apart:
// two of them may be of one shard.
func (s *settlement) forShard(acc *dispatch.Account, place int) dispatch.Settlement {
	return dispatch.Settlement{Account: acc, Unpaid: s.unpaid, SettleRequest: script.SettleRequest{
		Mark: s.mark + "." + strconv.Itoa(place), MarkFor: s.keep, Used: s.used}}
}

// giveBack returns so many of the permits, the last ones. The last part of all goes first: its
// shard knows whether the decision was settled before.
func (s *settlement) giveBack(ctx context.Context, parts []dispatch.Part, unused int64) error {
	back := unused
	var all []dispatch.Settlement
	for i, p := range slices.Backward(parts) {
		n := min(unused, p.N)
		unused -= n
		if n > 0 && there(p) {
			one := s.forShard(p.Account, i)
			one.Back, one.At = n, p.At
			all = append(all, one)
		}
	}
	slices.Reverse(all)
	if s.by != nil {
		CourtesyOf(s.target).gave(back)
	}
	err := s.run(ctx, all)
	s.target.Members.Wake(false)
	if s.by != nil && s.by != s.target { // of the same key
		s.by.forgetDenials()
		s.by.Members.Wake(false)
	}
	return err
}

// charge divides n permits over the shards by what each can have. The shard that knows whether the
// decision was settled before goes first: that of the last part, or if it has left the last one.
func (s *settlement) charge(ctx context.Context, parts []dispatch.Part, n int64) error {
	r, _ := s.target.InUse(ctx)
	if r == nil {
		return s.target.Process.Plainly(register.Unavailable(s.target.Record().Absence()))
	}
	var last *dispatch.Account
	for _, p := range parts {
		if there(p) {
			last = p.Account
		}
	}
	charged, sum := n, 0.0
	for _, sh := range r.Shards {
		sum += float64(sh.Most())
	}
	var all, first []dispatch.Settlement
	for _, sh := range r.Shards {
		most, part := float64(sh.Most()), n
		if most < sum {
			part = min(n, int64(float64(n)*most/sum+0.5))
		}
		n, sum = n-part, sum-most
		if part == 0 && sh != last.Shard {
			continue
		}
		one := s.forShard(last.At(sh), len(parts)-1)
		one.Charge, one.Owed = part, r.Limit.Owed()
		if sh == last.Shard {
			first = append(first, one)
		} else {
			all = append(all, one)
		}
	}
	all = append(all, first...)
	err := s.run(ctx, all)
	if err == nil {
		s.target.ahead.Store(nil)
		noteGranted(s.target, charged)
	}
	return err
}

// run settles with the last one first, and with all others unless the decision was settled before
// for another use. If it was for the same, a reply was lost, or a node was away.
func (s *settlement) run(ctx context.Context, all []dispatch.Settlement) error {
	again := true
	errs := make([]error, len(all))
	with := func(from, to int) (another bool) {
		replies, failed := settleAll(ctx, s.target, all[from:to])
		for i, err := range failed {
			if errs[from+i] = err; err == nil {
				s.target.Process.Telemetry.Settled(s.target.Metrics, replies[i].Back, replies[i].Granted)
			}
			again = again && err == nil && replies[i].Repeated != script.First
			another = another || replies[i].Repeated == script.Another
		}
		return another
	}
	if k := len(all) - 1; k >= 0 && !with(k, k+1) && k > 0 {
		with(0, k)
	}
	if again && len(all) > 0 {
		return limit.ErrSettled
	}
	return errors.Join(errs...)
}

// settleHere settles what this process decided by itself, the newest part first: a bucket takes
// back only what was granted last.
func (d *Decision) settleHere(used int64) error {
	if !d.special.settled.CompareAndSwap(false, true) {
		return limit.ErrSettled
	}
	c, of := d.Target, d.Target.LimitNow()
	back := d.returnHere(beyond(d.parts(), used))
	_, charged := d.special.engine.Settle(0, local.Receipt{}, max(used-d.Granted, 0), of.Owed())
	if !d.Degraded { // metrics count what the outage policy grants apart
		c.Process.Telemetry.Settled(c.Metrics, back, charged)
	}
	c.Members.Wake(false)
	return nil
}

func (d *Decision) returnHere(unused int64) (back int64) {
	for _, p := range slices.Backward(d.parts()) {
		n := min(unused, p.N)
		came, _ := d.special.engine.Settle(n, local.Receipt{At: int64(p.At), Era: d.special.era}, 0, 0)
		back, unused = back+came, unused-n
	}
	return back
}

// HandBack does what GiveBackAll does, on behalf of a call that began at since. It goes on in the
// background when ctx ends or the call has used up its timeout, so that a node that stalls
// meanwhile does not hold the caller up. Close waits for that. told is that metrics were told of
// the grant.
func (c *Target) HandBack(ctx context.Context, d Decision, since int64, told bool) {
	done := make(chan struct{})
	giveBack := func(context.Context) { // ends soon: see GiveBackAll
		defer close(done)
		if back, _ := c.GiveBackAll(d, false); told && !d.Degraded {
			c.Process.Telemetry.Settled(c.Metrics, back, 0)
		}
	}
	if !c.Process.Spawn(giveBack) {
		giveBack(ctx) // after Close nothing may go on behind the caller
	}
	ctx, cancel := context.WithTimeout(ctx, c.Process.Config.CallTimeout-time.Duration(c.Process.Now()-since))
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// GiveBackAll returns the parts of a decision that did not come to anything. It tells how many
// permits came back, and how many could not be returned. It does not heed the caller's context, as
// the permits would be lost, and takes at most as long as a call may take, or a second if that is
// longer. unpaid is as in settlement.
func (c *Target) GiveBackAll(d Decision, unpaid bool) (back, lost int64) {
	if d.Granted == 0 {
		return 0, 0
	}
	if d.rarely().engine != nil {
		return d.returnHere(d.Granted), 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastReturn, c.Process.Config.CallTimeout))
	defer cancel()
	c = c.Hold()
	defer c.Release()
	var all []dispatch.Settlement
	for _, p := range d.partsIn(c) {
		if there(p) {
			all = append(all, dispatch.Settlement{Account: p.Account, Unpaid: unpaid,
				SettleRequest: script.SettleRequest{Back: p.N, At: p.At}})
		} else {
			lost += p.N
		}
	}
	replies, errs := settleAll(ctx, c, all)
	for i, err := range errs {
		back += replies[i].Back
		if err != nil {
			lost += all[i].Back
			c.Process.Config.Logger.Debug("permits could not be given back", "limiter", c.Title(), "permits", all[i].Back,
				"err", err)
		}
	}
	return back, lost
}

func settleAll(ctx context.Context, c *Target, all []dispatch.Settlement) ([]script.SettleReply, []error) {
	replies, errs := dispatch.SettleAll(ctx, all)
	back := false
	for i, err := range errs {
		if err != nil {
			errs[i] = c.Failed(all[i].Account.Shard, err)
		}
		back = back || err == nil && replies[i].Back > 0
	}
	if back {
		c.Freed(false)
	}
	return replies, errs
}

func (d *Decision) parts() []dispatch.Part {
	s := d.rarely()
	if s.lease != nil {
		return dispatch.Cut(s.lease.grant.parts(), int64(d.ticket), d.Granted)
	}
	if d.first.N == 0 {
		return nil
	}
	return append([]dispatch.Part{d.first}, s.more...)
}
