package shardlimit

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// This file has the calls to a shard that are not for permits at once: those are in flight.go.

// haste is the part of the call timeout that a call must have had for its silence to tell anything of the node: what a
// call has at least that nobody hurries.
func (l *lane) haste() time.Duration { return l.env.callTimeout / 2 }

// run makes a call, without more.
func (l *lane) run(ctx context.Context, op telemetry.Operation, call func(context.Context, *shardCall) error) error {
	ctx, c, err := l.begin(ctx, op, 0, l.haste(), nil)
	if err != nil {
		return err
	}
	err = call(ctx, &c)
	c.finish(ctx, err)
	return err
}

// peek reads the shard's state.
func (l *lane) peek(ctx context.Context, timeout time.Duration) (r script.PeekReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = l.run(ctx, telemetry.Peek, func(ctx context.Context, c *shardCall) (err error) {
		if r, err = c.Scripts.Peek(ctx, l.ref); err == nil {
			c.looked(&r)
		}
		return err
	})
	return r, err
}

// clear forgets the shard's usage.
func (l *lane) clear(ctx context.Context) error {
	return l.run(ctx, telemetry.Clear, func(ctx context.Context, c *shardCall) error {
		_, err := c.Scripts.Clear(ctx, l.ref)
		if err == nil {
			l.known.reset()
		}
		return err
	})
}

// drop removes the shard.
func (l *lane) drop(ctx context.Context) error {
	return l.run(ctx, telemetry.Drop, func(ctx context.Context, c *shardCall) error { return c.Scripts.Drop(ctx, l.ref) })
}

// participants tells how those who contend for the shard stand.
func (l *lane) participants(ctx context.Context) (r script.BookReply, err error) {
	err = l.run(ctx, telemetry.Participants, func(ctx context.Context, c *shardCall) (err error) {
		r, err = c.Scripts.Book(ctx, l.ref)
		return err
	})
	return r, err
}

// propose offers these terms to the shard without asking for permits.
func (l *lane) propose(ctx context.Context, t *terms, gift script.Gift) (reply script.TakeReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.env.callTimeout)
	defer cancel()
	err = l.present(ctx, t, func(t *terms) (script.Status, int64, error) {
		ctx, c, err := l.begin(ctx, telemetry.Propose, 0, l.haste(), nil)
		if err != nil {
			return 0, 0, err
		}
		req := &script.TakeRequest{Proposal: t.proposal, Known: l.limit.KnownFor(), Gift: gift, Seen: l.remembers(c.Sent), Deadline: l.deadline(t.epoch)}
		reply, err = c.Scripts.Take(ctx, l.ref, req)
		received := c.finish(ctx, err)
		switch {
		case err != nil || reply.Status == script.Absent:
		case reply.Share <= reply.Target:
			c.heard(t, received, &reply) // a raised share is used at once
		default: // Next does not tell when a permit is free
			c.tell(t, reply.Status, reply.Epoch)
		}
		return reply.Status, reply.At, err
	})
	if err != nil {
		return script.TakeReply{}, err
	}
	return reply, nil
}

// reserve books n permits for the participant, from an instant on and not after the deadline (0: none). windows is for
// how many windows' worth of permits the shard may be booked. sent and received are when the call was made
// that the reply is to.
func (s *seat) reserve(ctx context.Context, n, at, deadline, windows int64) (reply script.ReserveReply, sent, received int64, err error) {
	l := s.lane
	err = l.present(ctx, nil, func(t *terms) (script.Status, int64, error) {
		ctx, c, err := l.begin(ctx, telemetry.Reserve, 1, l.haste(), nil)
		if err != nil {
			return 0, 0, err
		}
		req := &script.ReserveRequest{
			Proposal: t.proposal, Permits: n, MinDelay: max(0, time.Duration(at-c.Sent)), MaxDelay: 2 * script.MaxWindow,
			MaxBooked: windows * t.most, Known: l.limit.KnownFor(), Seen: l.remembers(c.Sent), Seat: s.name(), Deadline: l.deadline(t.epoch),
		}
		if deadline != 0 {
			req.MaxDelay = max(0, time.Duration(deadline-c.Sent))
		}
		req.Seat.Waiting = min(n, fairness.MaxReport)
		reply, err = c.Scripts.Reserve(ctx, l.ref, req)
		sent, received = c.Sent, c.finish(ctx, err)
		switch {
		case err == nil && (reply.Status != script.Absent || t.epoch == 0):
			c.heard(t, received, &reply.TakeReply)
		case err != nil && !script.NotExecuted(err):
			l.env.telemetry.Lost(l.metrics, n)
		}
		return reply.Status, reply.At, err
	})
	return reply, sent, received, err
}

// refund gives back part of what the shard granted to the participant. What was reserved counts as held until
// it is due, however early it is cancelled: others were told to come back then. unsent tells that the
// command surely was not executed. A node whose breaker is open is not asked.
func (s *seat) refund(ctx context.Context, p part, due int64) (unsent bool, err error) {
	l := s.lane
	if !l.usable(l.env.clock.Now()) {
		return true, l.node.Away(l.slot)
	}
	ctx, c, err := l.begin(ctx, telemetry.Refund, 0, l.haste(), nil)
	if err != nil {
		return true, err
	}
	r, err := c.Scripts.Refund(ctx, l.ref, script.RefundRequest{
		Permits: p.n, At: p.at, Seat: s.name(), Held: time.Duration(max(c.Sent, due) - p.from),
	})
	c.finish(ctx, err)
	if err != nil {
		return script.NotExecuted(err), err
	}
	if r.Refunded > 0 {
		l.known.returned(r.Free)
		l.limit.Returned()
	}
	return false, nil
}
