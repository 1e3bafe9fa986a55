package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// section is one batch's part of a script call, or that of an ask for a key that has none.
type section struct {
	lane    *Lane
	batch   *batch
	key     *KeyAsk
	groups  []script.Group  // its asks, as the script wants them
	callers []script.Caller // those who ask
	grants  []int64
	req     script.TakeRequest
	terms   *Terms // that were proposed
	reply   script.TakeReply
	sent    atomic.Bool // and not known to have been left undone
}

// prepare fills in the request, for a call that begins now.
func (s *section) prepare(b basis, now int64) {
	l, t := s.lane, b.terms()
	if s.callers = s.callers[:0]; !l.Keyed {
		for _, seat := range s.batch.seats {
			s.callers = append(s.callers, seat.Report(t.Shards))
		}
	}
	s.terms = t
	s.req.Groups, s.req.Callers = s.groups, s.callers
	s.req.Proposal = t.Proposal
	s.req.Relied = b.tell()
	s.req.Room, s.req.CallerRoom = s.grants[:0], s.req.CallerRoom[:0]
	// From afar there is no time for a second call: after a rest much may have changed, and whoever
	// has a name and is refused contends. Of a key the process knows little. Nor does the calm take
	// tell the time to who is refused, or has no word for a share, until he knows it.
	s.req.Rare = l.Known.Rare.Load() || s.req.Fence == refused ||
		s.req.Fence != 0 && s.req.Deadline == script.Unconfirmed
	s.req.Contended = l.Known.contended.Load() && l.Known.Answered(now-int64(time.Second))
	if l.Keyed {
		s.req.Rare = s.req.Rare || l.outbox().far()
	} else if !l.Known.Answered(now-int64(time.Second)) || l.asked.Load() > l.Expected(now) {
		s.req.Rare = true
	}
}

// relyOn fills in the request of an ask for a key as that of another one at the same place.
func (s *section) relyOn(o *section) {
	s.terms = o.terms
	s.req = script.TakeRequest{Proposal: o.req.Proposal, Relied: o.req.Relied, Groups: s.groups, Room: s.grants[:0],
		CallerRoom: s.req.CallerRoom[:0], Rare: o.req.Rare}
}

func (s *section) learn(c *call, received int64) {
	if s.absent() {
		s.sent.Store(false) // nothing was executed
		return
	}
	s.req.CallerRoom = s.reply.Callers
	if s.key != nil {
		s.key.learn(c, received, s)
		return
	}
	c.heard(s.terms, received, &s.reply)
	s.lane.Known.Rare.Store(s.req.Rare)
	s.lane.Known.contended.Store(s.req.Contended)
	for i, seat := range s.batch.seats {
		seat.learn(c.Sent, received, &s.reply, i)
	}
}

// absent reports whether the shard has no state, and was given none, or the call came after its
// fence.
func (s *section) absent() bool { return unserved(s.reply.Status) && s.terms.Epoch != 0 }

// unserved reports whether a call did nothing.
func unserved(s script.Status) bool { return s == script.Absent || s == script.Fenced }

// deliver hands the grants out, by the rule the script used.
func (s *section) deliver(received int64) {
	b, r := s.batch, &s.reply
	s.grants = r.Grants
	if s.key != nil {
		s.key.deliver(s, received)
		return
	}
	b.at, b.now, b.retry, b.rest = r.At, received, r.Retry, r.Free+elsewhere(s.lane, received)
	if s.lane.Paced {
		reply := *r
		b.paced = &reply
	}
	s.lane.land(b, r.Grants, nil)
}

// refuse ends the asks of a call that failed, and those that wait behind it, so that they can go to
// another shard at once.
func (s *section) refuse(err error) {
	l := s.lane
	if s.sent.Load() && !script.NotExecuted(err) {
		l.env.Telemetry.Lost(l.Metrics, s.wanted())
	}
	if s.key != nil {
		s.key.end(err)
		return
	}
	l.land(s.batch, nil, err)
	l.endWaiting(err)
}

func (s *section) wanted() (n int64) {
	for _, g := range s.groups {
		n += g.Size * g.Count
	}
	return n
}

// detour is a batch that does not fly with those of other shards, because it has something else to
// do first: until its shard has state it confirms the layout, or it makes sure of a layout that the
// shard would not tell it about.
type detour struct {
	section
	watchdog
}

// detour sends a batch alone, whose shard was asked before or not.
func (l *Lane) detour(b *batch, before told) {
	d := &detour{section: section{lane: l, batch: b}}
	d.watch(l.env, d.giveUp)
	now := l.env.Clock.Now()
	d.groups = b.groups(nil)
	budget := l.env.budget(now-b.oldest, l.Terms.Load().splitOver(l.Node))
	d.begin(now, budget)
	received, left := int64(0), false
	err := basis{lane: l}.present(d, before, func(b basis) (script.Status, clock.ServerTime, error) {
		if left = l.left(); left { // as was read meanwhile
			return script.OK, 0, nil
		}
		var err error
		received, err = d.take(d, b)
		return d.reply.Status, d.reply.At, err
	})
	switch awaited, _ := d.finish(); {
	case !awaited:
	case left || err != nil && l.left() && !d.sent.Load():
		l.deny(d.batch, l.env.Clock.Now())
	case err != nil:
		d.refuse(err)
	default:
		d.deliver(received)
	}
}

// budget is the time that a call has whose oldest ask has that age: half of it if the limit has
// shards to go to instead.
func (e *Env) budget(age int64, split bool) time.Duration {
	left := e.CallTimeout - time.Duration(age)
	if split {
		left = min(left, e.CallTimeout/2)
	}
	return left
}

// take makes one script call on this basis, and learns from the reply.
func (d *detour) take(ctx context.Context, b basis) (received int64, err error) {
	l := d.lane
	ctx, c, err := l.begin(ctx, telemetry.Take, d.batch)
	if err != nil {
		return 0, err
	}
	d.prepare(b, c.Sent)
	d.sent.Store(true)
	d.reply, err = c.Scripts.Take(ctx, l.Ref, &d.req)
	received = c.Finish(ctx, err)
	if err == nil {
		d.learn(&c, received)
	}
	return received, err
}

// giveUp answers the asks of a call that does not come back.
func (d *detour) giveUp() {
	if !d.sent.Load() {
		d.refuse(node.ErrAway)
		return
	}
	d.lane.Node.Heard(d.lane.Slot, context.DeadlineExceeded)
	d.refuse(context.DeadlineExceeded)
}
