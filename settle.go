package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// leastReturn bounds the return of permits that nobody waits for any more, unless calls may take
// longer.
const leastReturn = time.Second

// Settle makes what a decision of this limiter was granted what was used, 0 to MaxPermits:
// estimate, work, settle. What was not used comes back, so 0 is a refund. What was used beyond it
// is charged, though nothing may be free: calls are denied until it is paid.
//
// A decision is settled once. Whoever settles it again, in any process, gets ErrSettled and changes
// nothing; callers may ignore that. If a reply is lost, the same call may be made again. A Settle
// of just what was granted, of a denial, or of what the outage policy let pass does nothing. It
// goes on though ctx has ended, for at most Config.CallTimeout.
//
// What comes back, and what is charged:
//
//   - Permits that have left the window are back already. What is charged then is charged all the
//     same.
//   - Under SlidingLog, SlidingCounter and FixedWindow what is charged counts until a window is
//     over. More than the limit makes no difference there, so no more is counted.
//   - A TokenBucket takes back what it would have had without the grant, as far as it knows that,
//     and within the time that it takes to fill. It pays what it is charged at its rate.
//   - A LeakyBucket takes back only the last turns that it gave; what is charged has later turns
//     come later.
//   - A bucket is charged no more than it gains in an hour, or in twice the time that it takes to
//     fill, if that is longer.
//
// What is charged is divided over the shards, beside the bound of the limit, as it was used
// already. A shard that lost its memory gives nothing back and forgets what it was charged; one in
// quarantine is charged nothing.
//
// The error is ErrOtherLimiter if the decision is not one of this limiter, and joins a *ShardError
// for each shard that did not answer. Calling it again has these settled.
func (l *Limiter) Settle(ctx context.Context, d Decision, used int64) error {
	c := l.hold().core
	defer c.release()
	return c.settle(ctx, &d, used, false)
}

// settle is Settle. unpaid keeps the participant's credit from having what comes back.
func (c *core) settle(ctx context.Context, d *Decision, used int64, unpaid bool) error {
	switch {
	case c.client.closed.Load():
		return ErrClosed
	case c.invalid != nil:
		return c.invalid
	case used < 0 || used > MaxPermits:
		return fmt.Errorf("%w: %d used, that must be 0 to %d", ErrInvalidPermits, used, MaxPermits)
	case d.Granted == 0:
		return nil
	case d.joint != nil || len(d.handed) > 1:
		return fmt.Errorf("%w: settle it with its Set, not with %q", ErrOtherLimiter, c.title())
	case d.core != nil && (d.core.client != c.client || d.core.id != c.id),
		len(d.handed) == 1 && d.handed[0].limiter != xxhash.Sum64String(c.id):
		return fmt.Errorf("%w: settle it with the Limiter that made it, not with %q", ErrOtherLimiter, c.title())
	case used == d.Granted:
		return nil
	case d.engine != nil:
		return d.settleHere(used)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.client.cfg.CallTimeout)
	defer cancel()
	s := settlement{core: c, used: used, unpaid: unpaid, keep: c.limitNow().memory() + time.Second}
	parts := s.parts(ctx, d)
	switch {
	case !slices.ContainsFunc(parts, there): // nobody counts it, or its shards are gone
		return nil
	case used > d.Granted:
		return s.charge(ctx, parts, used-d.Granted)
	case d.core != nil && c.client.now() >= d.until:
		return nil
	}
	return s.giveBack(ctx, parts, d.Granted-used)
}

// settlement is one Settle under way.
type settlement struct {
	core   *core
	used   int64
	unpaid bool
	keep   time.Duration // for how long it is remembered
	mark   string        // the name of the decision
}

// there reports whether the part is of a shard that is in the layout.
func there(p lane.Part) bool { return p.Seat != nil }

// parts are those of the decision. Of one that was handed over, those have no seat whose shards
// have left the layout: they keep their places, which are in the names of marks, and the permits
// that came back there.
func (s *settlement) parts(ctx context.Context, d *Decision) (parts []lane.Part) {
	if len(d.handed) == 0 {
		if parts = s.core.own(d); len(parts) > 0 {
			s.mark = markOf(d.origin())
		}
		return parts
	}
	h := &d.handed[0]
	s.mark = markOf(h.nonce, h.ticket)
	r, _ := s.core.inUse(ctx)
	if r == nil {
		return nil
	}
	who := &lane.Member{ID: h.participant, Weight: 1000}
	for _, p := range h.parts {
		part := lane.Part{At: clock.ServerTime(p.at), N: p.n}
		i := slices.IndexFunc(r.layout.Shards, func(s shard.Shard) bool { return siteHash(s.Site()) == p.site })
		if i >= 0 {
			if l := s.core.laneTo(r.layout.Shards[i]); l != nil {
				part.Seat = lane.NewSeat(who, l)
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// own returns the parts of a decision, with seats at the lanes that the process has now: of a key
// they may be others than those that granted it.
func (c *core) own(d *Decision) []lane.Part {
	parts := d.parts()
	if c.family == nil {
		return parts
	}
	for i, p := range parts {
		at := siteOf(p.Seat.Lane)
		if l := c.laneTo(shard.Shard{Slot: at.Slot, Node: at.Node, Algorithm: at.Algorithm, Life: at.Life}); l != nil &&
			l != p.Seat.Lane {
			parts[i].Seat = p.Seat.At(l)
		}
	}
	return parts
}

// markOf is the name of a decision, which no other decision has.
func markOf(nonce, ticket uint64) string {
	return strconv.FormatUint(nonce, 36) + "-" + strconv.FormatUint(ticket, 36)
}

// origin is what tells the decision from every other one.
func (d *Decision) origin() (nonce, ticket uint64) {
	switch {
	case d.lease != nil:
		return d.lease.nonce, d.ticket
	case d.ticket>>63 == 1: // see ownTicket
		return d.core.rare().nonce, d.ticket
	}
	return d.first.Seat.Lane.Nonce, d.ticket
}

// request is one shard's part of it. place tells the parts of a decision apart, of which two may be
// of one shard.
func (s *settlement) request(seat *lane.Seat, place int) lane.Settlement {
	return lane.Settlement{Seat: seat, Unpaid: s.unpaid, SettleRequest: script.SettleRequest{
		Mark: s.mark + "." + strconv.Itoa(place), MarkFor: s.keep, Used: s.used}}
}

// giveBack returns so many of the permits, the last ones. The last part of all goes first: its
// shard knows whether the decision was settled before.
func (s *settlement) giveBack(ctx context.Context, parts []lane.Part, unused int64) error {
	var all []lane.Settlement
	for i, p := range slices.Backward(parts) {
		n := min(unused, p.N)
		unused -= n
		if n > 0 && there(p) {
			one := s.request(p.Seat, i)
			one.Back, one.At = n, p.At
			all = append(all, one)
		}
	}
	slices.Reverse(all)
	err := s.run(ctx, all)
	s.core.members.wake()
	return err
}

// charge divides n permits over the shards by what each can have. The shard that knows whether the
// decision was settled before goes first: that of the last part, or if it has left the first one.
func (s *settlement) charge(ctx context.Context, parts []lane.Part, n int64) error {
	r, _ := s.core.inUse(ctx)
	if r == nil {
		return register.Unavailable(s.core.record().Absence())
	}
	var last *lane.Seat
	for _, p := range parts {
		if there(p) {
			last = p.Seat
		}
	}
	charged, sum := n, 0.0
	for _, l := range r.lanes {
		sum += float64(l.Most())
	}
	var all []lane.Settlement
	for _, l := range r.lanes {
		most, part := float64(l.Most()), n
		if most < sum {
			part = min(n, int64(float64(n)*most/sum+0.5))
		}
		n, sum = n-part, sum-most
		if part == 0 && l != last.Lane {
			continue
		}
		seat := last
		if l != last.Lane {
			seat = last.At(l)
		}
		one := s.request(seat, len(parts)-1)
		one.Charge, one.Owed = part, r.limit.owed()
		all = append(all, one)
		if l == last.Lane { // it goes first
			k := len(all) - 1
			all[0], all[k] = all[k], all[0]
		}
	}
	slices.Reverse(all)
	err := s.run(ctx, all)
	if err == nil {
		s.core.ahead.Store(nil)
		s.core.noteGranted(charged)
	}
	return err
}

// owed is within what time a bucket must have gained what it is charged.
func (l *Limit) owed() time.Duration {
	fill := time.Duration(float64(l.most()) / float64(l.Permits) * float64(l.Per))
	return min(max(time.Hour, 2*fill), 10*script.MaxWindow)
}

// run settles with the last one first, and with all others unless the decision was settled before
// for another use. If it was for the same, a reply was lost, or a node was away.
func (s *settlement) run(ctx context.Context, all []lane.Settlement) error {
	again := true
	errs := make([]error, len(all))
	with := func(from, to int) (another bool) {
		replies, failed := lane.SettleAll(ctx, all[from:to])
		for i, err := range failed {
			if err != nil {
				errs[from+i] = all[from+i].Seat.Lane.Fail(err)
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
		return ErrSettled
	}
	return errors.Join(errs...)
}

// settleHere settles what this process decided by itself, the newest part first: a bucket takes
// back only what was granted last.
func (d *Decision) settleHere(used int64) error {
	if !d.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	if used > d.Granted {
		limit := d.core.limitNow()
		d.engine.Settle(0, 0, used-d.Granted, limit.owed())
	} else {
		d.returnHere(d.Granted - used)
		d.core.members.wake()
	}
	return nil
}

func (d *Decision) returnHere(unused int64) {
	for _, p := range slices.Backward(d.parts()) {
		n := min(unused, p.N)
		d.engine.Settle(n, p.At, 0, 0)
		unused -= n
	}
}

// handBack is giveBack on behalf of a call that began at since. It goes on in the background when
// ctx ends or the call has used up its timeout, so that a node that stalls meanwhile does not hold
// the caller up. Close waits for that. back is closed once it is done.
func (c *core) handBack(ctx context.Context, d Decision, since int64) (back <-chan struct{}) {
	done := make(chan struct{})
	if d.Granted == 0 {
		close(done)
		return done
	}
	if !c.client.spawn(func(context.Context) { // ends soon: see giveBack
		defer close(done)
		c.giveBack(d, false)
	}) {
		c.giveBack(d, false) // after Close nothing may go on behind the caller
		close(done)
		return done
	}
	late := time.NewTimer(c.client.cfg.CallTimeout - time.Duration(c.client.now()-since))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
	return done
}

// giveBack returns the parts of a decision that did not come to anything, and tells how many
// permits could not be returned. It does not heed the caller's context, as the permits would be
// lost, and takes at most as long as a call may take, or a second if that is longer. unpaid is as
// in settle.
func (c *core) giveBack(d Decision, unpaid bool) (lost int64) {
	if d.Granted == 0 {
		return 0
	}
	if d.engine != nil {
		d.returnHere(d.Granted)
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastReturn, c.client.cfg.CallTimeout))
	defer cancel()
	c = c.hold()
	defer c.release()
	var all []lane.Settlement
	for _, p := range c.own(&d) {
		all = append(all, lane.Settlement{Seat: p.Seat, Unpaid: unpaid,
			SettleRequest: script.SettleRequest{Back: p.N, At: p.At}})
	}
	_, errs := lane.SettleAll(ctx, all)
	for i, err := range errs {
		if err != nil {
			lost += all[i].Back
			c.client.cfg.Logger.Debug("permits could not be given back", "limiter", c.title(), "permits", all[i].Back,
				"err", err)
		}
	}
	return lost
}

func (d *Decision) parts() []lane.Part {
	if d.lease != nil {
		return lane.Cut(d.lease.grant.parts(), int64(d.ticket), d.Granted)
	}
	if d.first.N == 0 {
		return nil
	}
	return append([]lane.Part{d.first}, d.more...)
}
