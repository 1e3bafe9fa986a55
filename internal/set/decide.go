package set

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// This file is one call on a Set: whom to ask in which order, and what becomes of
// the answers.

// vote is what one limit of a Set says to one call.
type vote struct {
	*call.Member
	n      int64         // permits that are wanted of it; 0: it is not asked
	came   int64         // when the call came, on the process' clock
	since  int64         // when this try began, likewise
	routes *limit.Routes // nil if the limit could not be declared yet
	turn   bool          // the call's turn came in its line, and passed
	asked  bool          // it has decided, or is about to
	said   call.Decision
	err    error
}

// setCall is one call on a Set.
type setCall struct {
	ctx    context.Context
	votes  []vote
	lost   bool     // somebody refused: the rest need not be asked
	waits  bool     // until all grant, and behind those who came before
	futile int      // how often it gave back what it was granted
	hasty  bool     // it stood in a line for hardly any time
	places []func() // to give up those that it keeps
}

// begin holds what the process has of the limits, until end.
func (s *Set) begin(ctx context.Context) *setCall {
	c := &setCall{ctx: ctx, votes: make([]vote, len(s.parts))}
	for i, p := range s.parts {
		m := p.Limiter.Hold()
		v := vote{Member: m, n: p.N, came: m.Target.Process.Now()}
		if i > 0 && c.votes[0].Target.Process == m.Target.Process {
			v.came = c.votes[0].came // else two calls may each be the older one in a line
		}
		c.votes[i] = v
	}
	return c
}

func (c *setCall) end() {
	for _, giveUp := range c.places {
		giveUp()
	}
	for i := range c.votes {
		c.votes[i].Target.Release()
	}
}

// decide asks all limits but one that a line has just served.
func (c *setCall) decide() (d call.Decision, err error) {
	earlier := c.places
	c.lost, c.places = false, nil
	for i := range c.votes {
		c.votes[i].since = c.votes[i].Target.Process.Now()
	}
	if err = cmp.Or(c.admit(), clock.Ended(c.ctx)); err == nil {
		c.fromMemory()
		c.everybodyElse()
		d, err = c.result()
	} else {
		c.handBack()
	}
	for i := range c.votes {
		c.votes[i].asked = false
	}
	for _, giveUp := range earlier {
		giveUp()
	}
	return d, err
}

// A call that goes from line to line may be served in each at once, and be refused elsewhere each
// time: a line books what a call that does not wait is refused. Before it stands in the next one it
// rests.
const hasty = 10 * time.Millisecond

// stand waits in the line of the limit that refused for longest, of two the first.
func (c *setCall) stand(said []call.Decision) (call.Decision, error) {
	last := -1
	for i := range said {
		if !said[i].Allowed && (last < 0 || said[i].RetryAfter > said[last].RetryAfter) {
			last = i
		}
	}
	v := &c.votes[last]
	if c.hasty {
		clock.Sleep(c.ctx, hasty)
	}
	v.since = v.Target.Process.Now()
	v.err = wait.Stand(c.ctx, v.Member, v.routes, wait.Place{N: v.n, Deadline: v.Target.Process.Deadline(c.ctx),
		Came: v.came, Ready: func() bool { return c.ready(v) }}, &v.said)
	c.hasty = v.Target.Process.Now()-v.since < int64(hasty)
	if errors.Is(v.err, wait.ErrElsewhere) {
		v.err, v.turn = nil, true
		return v.said, nil
	}
	v.asked = v.err == nil
	v.Target.Waited(c.ctx, &v.said, v.n, v.since, v.err)
	return v.said, v.err
}

// ready reports whether no limit but that one is believed to refuse the call.
func (c *setCall) ready(but *vote) bool {
	for i := range c.votes {
		if v := &c.votes[i]; v != but && v.n > 0 {
			if known, _ := v.refuses(); known {
				return false
			}
		}
	}
	return true
}

// refuses reports whether a limit is believed to lack what the call wants, and for how long, or
// others who came before wait for it.
func (v *vote) refuses() (bool, time.Duration) {
	lacks := v.Lacks(v.routes, v.n)
	return lacks > 0 || v.routes != nil && !v.routes.Limit.Mode.Lenient() && wait.Behind(v.Member, v.came), lacks
}

// keepPlaces keeps the places of the call in the lines where its turn came, while it waits for
// another limit: nobody behind is served. Else it might get what it wants from each limit, but
// never from all at once. A place is kept only if the wait is no longer than it takes until the
// limit has as much again; with each turn that passes that doubles.
func (c *setCall) keepPlaces(missing time.Duration) {
	for i := range c.votes {
		v := &c.votes[i]
		if !v.turn && (!v.asked || v.said.Granted == 0) || v.Target.LimitOf(v.routes).Mode.Lenient() {
			continue
		}
		v.turn = false
		of := v.Target.LimitOf(v.routes)
		again := time.Duration(float64(of.Per) * min(float64(v.n)/float64(of.Permits)*math.Ldexp(1, c.futile), 1))
		if missing <= again {
			giveUp := wait.Keep(v.Member, v.came)
			late := time.AfterFunc(again, giveUp)
			c.places = append(c.places, func() { late.Stop(); giveUp() })
		}
	}
	c.futile++
}

// admit checks the call for every limit.
func (c *setCall) admit() error {
	var wg sync.WaitGroup
	for i := range c.votes {
		v := &c.votes[i]
		switch {
		case v.n == 0:
			v.routes = v.Target.Known()
		case v.asked:
		case v.Target.Asks(v.Target.Known()): // at the same time as others do
			wg.Go(func() { v.routes, _, v.err = v.Member.Admit(c.ctx, v.n, false) })
		default:
			v.routes, _, v.err = v.Member.Admit(c.ctx, v.n, false)
		}
	}
	wg.Wait()
	for i := range c.votes {
		if err := c.votes[i].err; err != nil {
			return err
		}
	}
	return nil
}

// ask has one limit decide, once its vote says that it is asked. What it grants counts until it is
// given back.
func (c *setCall) ask(v *vote) {
	v.said = call.Decision{}
	v.err = v.Decide(c.ctx, v.n, false, v.since, &v.said)
}

// fromMemory asks the limits that this process decides by itself, and collects
// the refusals that it is certain of.
func (c *setCall) fromMemory() {
	for i := range c.votes {
		v := &c.votes[i]
		if v.asked || v.n == 0 {
			continue
		}
		if c.waits {
			if known, lacks := v.refuses(); known {
				v.asked, v.said, c.lost = true, call.Decision{}, true
				v.Target.Deny(v.routes, v.since, lacks, v.Why(v.routes, v.n), &v.said)
				continue
			}
		}
		of := v.Target.LimitOf(v.routes)
		if of.Mode.AsksNobody() || of.Scope == limit.PerParticipant || v.routes != nil &&
			!v.Leases.Have(v.routes, v.n, v.since) && v.View(v.routes).KnownDenial(v.n, v.since, &call.Decision{}) {
			v.asked = true
			c.ask(v)
			c.lost = c.lost || !v.said.Allowed
		}
	}
}

// everybodyElse asks all that are left at the same time, unless somebody refused, or has no time:
// then what the others granted would have to be given back.
func (c *setCall) everybodyElse() {
	for i := range c.votes {
		v := &c.votes[i]
		if c.lost || v.asked || v.n == 0 || v.routes == nil {
			continue
		}
		if at := v.View(v.routes).Crowded(v.Target.Process.Now()); at != nil {
			v.asked, c.lost, v.said = true, true, call.Decision{}
			v.err = call.Shed(c.ctx, v.Target, at, v.n, v.since, &v.said)
		}
	}
	if c.lost {
		return
	}
	var wg sync.WaitGroup
	var last *vote
	for i := range c.votes {
		v := &c.votes[i]
		if v.asked || v.n == 0 {
			continue
		}
		v.asked = true
		if last != nil {
			other := last
			wg.Go(func() { c.ask(other) })
		}
		last = v
	}
	if last != nil {
		c.ask(last) // on this goroutine
	}
	wg.Wait()
}

// result sums the votes up, and gives back what was granted in vain.
func (c *setCall) result() (call.Decision, error) {
	d := call.Decision{Answer: call.Answer{Remaining: limit.MaxPermits + 1}}
	var errs []error
	refused, missing := false, time.Duration(0)
	for i := range c.votes {
		switch v := &c.votes[i]; {
		case !v.asked:
		case v.err != nil:
			errs = append(errs, v.err)
		case !v.said.Allowed:
			refused, missing = true, max(missing, v.said.RetryAfter)
		}
	}
	if d.Allowed = !refused && len(errs) == 0; !d.Allowed {
		if c.waits {
			c.keepPlaces(missing)
		}
		c.handBack()
		if c.ctx.Err() != nil {
			return call.Decision{}, clock.Ended(c.ctx)
		}
		if !refused {
			return call.Decision{}, allOf(errs)
		}
		d.RetryAfter = -1
	}
	said := make([]call.Decision, len(c.votes))
	d.Joint = &said
	for i := range c.votes {
		v, one := &c.votes[i], &said[i]
		*one = v.left(c.ctx)
		one.Hint(c.waits)
		if v.asked && v.err == nil {
			include(&d, one)
		}
		if d.Allowed {
			d.Granted = min(d.Granted+one.Granted, limit.MaxPermits)
		} else if !one.Allowed && v.err == nil && one.RetryAfter > d.RetryAfter {
			d.RetryAfter, d.Reason, d.Target = one.RetryAfter, one.Reason, v.Target
		}
	}
	c.unlimited(&d)
	return d, nil
}

// left returns what a limit says of the call, once it has been given back what it granted in vain.
func (v *vote) left(ctx context.Context) call.Decision {
	of := v.Target.LimitOf(v.routes)
	switch {
	case v.asked && v.err != nil:
		return call.Decision{Answer: call.Answer{Limit: of.Permits}, Origin: call.Origin{Mode: of.Mode, Target: v.Target}}
	case v.asked:
		return v.said
	}
	d := call.Decision{Answer: call.Answer{Limit: of.Permits, Remaining: of.Most()},
		Origin: call.Origin{Mode: of.Mode, Target: v.Target}}
	if of.Scope != limit.PerParticipant && (v.routes == nil || !v.routes.Heard()) {
		d.Target = nil // nothing is known of it
	}
	switch {
	case of.Scope == limit.PerParticipant: // which is asked unless 0 permits are wanted
		own := v.Own(of)
		d.Remaining, d.ResetAfter = own.Free, own.Reset
	case v.routes != nil:
		d.Remaining = v.routes.Spare()
		d.ResetAfter = v.routes.ResetAfter(v.Target.Process.Now())
		if !of.Mode.Lenient() { // else it would have let the call pass
			d.RetryAfter = v.soonest(ctx)
		}
	}
	if d.Allowed = d.RetryAfter == 0; !d.Allowed {
		d.Reason = v.Why(v.routes, v.n)
	}
	return d
}

// unlimited has the decision tell of limits in Shadow if no other limit had anything to say.
func (c *setCall) unlimited(d *call.Decision) {
	if d.Remaining <= limit.MaxPermits {
		return
	}
	for i := range c.votes {
		if v := &c.votes[i]; v.asked && v.err == nil && v.said.Mode == limit.Shadow {
			d.Mode = limit.Shadow
			left(d, &v.said)
		}
	}
	if d.Remaining > limit.MaxPermits { // all are off
		d.Limit, d.Remaining, d.Mode = limit.MaxPermits, limit.MaxPermits, limit.Off
	}
}

// left takes what one limit has left into the decision of all.
func left(d, one *call.Decision) {
	if one.Remaining < d.Remaining {
		d.Remaining, d.Limit, d.NextAfter = one.Remaining, one.Limit, one.NextAfter
	}
	d.ResetAfter = max(d.ResetAfter, one.ResetAfter)
}

// include takes what one limit said into the decision of all. How much is left under one that
// refuses nobody concerns no caller.
func include(d, one *call.Decision) {
	if !one.Mode.Lenient() {
		left(d, one)
	}
	d.Delay = max(d.Delay, one.Delay)
	d.Degraded, d.Shadowed = d.Degraded || one.Degraded, d.Shadowed || one.Shadowed
	if one.Mode == limit.Closed {
		d.Mode = limit.Closed
	}
	d.Source = one.Source
}

// handBack returns what some limits granted because another refused, and has their votes tell what
// is left then. It waits for that no longer than the call may take.
func (c *setCall) handBack() {
	var wg sync.WaitGroup
	for i := range c.votes {
		v := &c.votes[i]
		if !v.asked || v.err != nil || !v.said.Allowed {
			continue
		}
		wg.Go(func() {
			v.Target.HandBack(c.ctx, v.said, v.since, true)
			v.Target.Members.Wake(false) // somebody may have been refused meanwhile
			v.said.NextAfter, v.said.Delay = 0, 0
			if !v.said.Mode.AsksNobody() && !v.said.Shadowed {
				v.said.Remaining = min(v.said.Remaining+v.said.Granted, v.Target.LimitOf(v.routes).Most())
			}
		})
	}
	wg.Wait()
}

// soonest returns how long it takes until a limit that was not asked can grant what the call wants.
// For more than one permit it may have to ask what the shards have ahead.
func (v *vote) soonest(ctx context.Context) time.Duration {
	if v.n < 2 || v.routes.Spare() >= v.n {
		return v.Lacks(v.routes, v.n)
	}
	return max(0, v.Target.Look(ctx, v.routes, v.since).Await(v.Target, v.routes, v.n))
}

// allOf joins the errors of a call. Where some tell of limits that are unavailable at present and
// others of what waiting does not mend, only these are told.
func allOf(errs []error) error {
	away := func(err error) bool { return errors.Is(err, limit.ErrUnavailable) }
	if lasting := slices.DeleteFunc(slices.Clone(errs), away); len(lasting) > 0 {
		errs = lasting
	}
	return errors.Join(errs...)
}
