package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// This file has the calls to a shard that are not for permits at once: those are in flight.go.

// run makes a call, without more.
func (l *Lane) run(ctx context.Context, op telemetry.Operation, call func(context.Context, *call) error) error {
	ctx, c, err := l.begin(ctx, op, nil)
	if err != nil {
		return err
	}
	err = call(ctx, &c)
	c.Finish(ctx, err)
	return err
}

// Peek reads the shard's state.
func (l *Lane) Peek(ctx context.Context, timeout time.Duration) (r script.PeekReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = l.run(ctx, telemetry.Peek, func(ctx context.Context, c *call) (err error) {
		if r, err = c.Scripts.Peek(ctx, l.Ref); err == nil {
			c.looked(&r)
		}
		return err
	})
	return r, err
}

// Clear forgets the shard's usage.
func (l *Lane) Clear(ctx context.Context) error {
	return l.run(ctx, telemetry.Clear, func(ctx context.Context, c *call) error {
		err := c.Scripts.Clear(ctx, l.Ref)
		if err == nil {
			l.Known.reset()
		}
		return err
	})
}

// Drop removes the shard.
func (l *Lane) Drop(ctx context.Context) error {
	return l.run(ctx, telemetry.Drop, func(ctx context.Context, c *call) error { return c.Scripts.Drop(ctx, l.Ref) })
}

// Participants tells how those who contend for the shard stand.
func (l *Lane) Participants(ctx context.Context) (r script.LedgerReply, err error) {
	err = l.run(ctx, telemetry.Participants, func(ctx context.Context, c *call) (err error) {
		r, err = c.Scripts.Ledger(ctx, l.Ref)
		return err
	})
	return r, err
}

// Propose offers these terms to the shard without asking for permits.
func (l *Lane) Propose(ctx context.Context, t *Terms) (reply script.TakeReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.env.CallTimeout)
	defer cancel()
	err = basis{l, t}.present(ctx, told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := l.begin(ctx, telemetry.Propose, nil)
		if err != nil {
			return 0, 0, err
		}
		reply, err = c.Scripts.Take(ctx, l.Ref, &script.TakeRequest{Proposal: t.Proposal, Relied: on.tell()})
		received := c.Finish(ctx, err)
		switch {
		case err != nil || unserved(reply.Status):
		case reply.Share <= reply.Target:
			c.heard(t, received, &reply) // a raised share is used at once
		default: // it gives its share up
			c.tell(t, reply.Status, reply.Epoch)
		}
		return reply.Status, reply.At, err
	})
	if err != nil {
		return script.TakeReply{}, err
	}
	return reply, nil
}

// Booking is what is to be reserved; times are on the process' clock.
type Booking struct {
	Permits  int64
	From     int64 // for no earlier instant
	Deadline int64 // for no later one; 0: none
}

// Reserve books permits for the participant. sent and received are when the call was made that the
// reply is to.
func (s *Seat) Reserve(ctx context.Context,
	b Booking) (reply script.ReserveReply, sent, received int64, err error) {
	l := s.Lane
	err = basis{lane: l}.present(ctx, told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := l.begin(ctx, telemetry.Reserve, nil)
		if err != nil {
			return 0, 0, err
		}
		req := &script.ReserveRequest{
			Proposal: on.fixed.Proposal, Relied: on.tell(), Permits: b.Permits,
			MinDelay: max(0, time.Duration(b.From-c.Sent)),
			MaxDelay: 10 * script.MaxWindow, // the shard knows how far ahead it may be
			Caller:   s.name(),
		}
		req.Caller.Waiting = min(b.Permits, fairness.MaxReport)
		if b.Deadline != 0 {
			req.MaxDelay = min(req.MaxDelay, max(0, time.Duration(b.Deadline-c.Sent)))
		}
		reply, err = c.Scripts.Reserve(ctx, l.Ref, req)
		sent, received = c.Sent, c.Finish(ctx, err)
		switch {
		case err == nil && (!unserved(reply.Status) || on.fixed.Epoch == 0):
			c.heard(on.fixed, received, &reply.TakeReply)
		case err != nil && !script.NotExecuted(err):
			l.env.Telemetry.Lost(l.Metrics, b.Permits)
		}
		return reply.Status, reply.At, err
	})
	return reply, sent, received, err
}

// turnBy is Ask for a turn of a leaky bucket that comes in time. One that was taken and given back
// is a hole if others came behind it, so the shard gives none that is too late. A refusal tells
// when the turn comes.
func (s *Seat) turnBy(ctx context.Context, a *Ask, now int64) error {
	l := s.Lane
	a.Answer = Answer{Now: now, Rest: elsewhere(l, now)}
	most := int64(l.Known.ShutCap(l.Terms.Load().Window))
	if next := l.Known.ResetAt.Load(); next > a.By && l.Known.Answered(now-most) {
		_ = basis{lane: l}.expired() // which has the record read: nothing is asked that would tell of a change
		a.Retry = time.Duration(next - now)
		return nil
	}
	left := l.env.CallTimeout - time.Duration(now-a.Since)
	if left <= 0 {
		return ErrOverloaded
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	r, _, received, err := s.Reserve(ctx, Booking{Permits: a.N, Deadline: max(a.By, now)})
	switch {
	case err != nil && l.env.Hurried(left) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case err != nil:
		return err
	}
	a.Answer = Answer{Granted: r.Granted, At: r.At, Now: received, Rest: r.Free + elsewhere(l, received),
		Delay: r.Delay, Retry: r.Retry}
	switch {
	case r.Granted > 0:
		a.Ticket = l.departed.Add(1) << 20
	case r.Paced > 0:
		a.Retry = r.Paced
	case r.Retry > 0 && received+int64(r.Retry) <= a.By && r.Share > 0 && r.Share <= r.Target:
		// It comes in time, but the queue has no room for it before it is shorter.
		t := l.Terms.Load()
		a.Retry = max(0, r.Retry-time.Duration(float64(t.Most-1)/float64(r.Share)*float64(t.Window)))
	}
	return nil
}

// Settle gives back what the shard granted to the participant, or charges it for more. A node whose
// breaker is open is not asked.
func (s *Seat) Settle(ctx context.Context, r script.SettleRequest) (reply script.SettleReply, err error) {
	l := s.Lane
	if !l.Node.Reachable(l.Slot) {
		return reply, l.Node.Away(l.Slot)
	}
	once := func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := l.begin(ctx, telemetry.Settle, nil)
		if err != nil {
			return 0, 0, err
		}
		if r.Charge > 0 {
			r.Proposal = on.fixed.Proposal
			r.Relied = on.tell()
		}
		reply, err = c.Scripts.Settle(ctx, l.Ref, r)
		received := c.Finish(ctx, err)
		switch {
		case err != nil || unserved(reply.Status):
		case r.Charge > 0:
			c.heard(on.fixed, received, &reply.TakeReply)
		case reply.Back > 0:
			l.Known.returned(reply.Free, reply.Early)
		}
		return reply.Status, reply.At, err
	}
	if r.Charge > 0 {
		err = basis{lane: l}.present(ctx, told{}, once)
	} else {
		_, _, err = once(basis{lane: l})
	}
	return reply, err
}

// Sight is what a look at one shard found.
type Sight struct {
	script.PeekReply
	Lane     *Lane
	Received int64 // on the process' clock
	Err      error // why the shard did not answer
}

// Look peeks at shards at once. It returns what each says, in their order, and waits no longer than
// the timeout.
func Look(ctx context.Context, lanes []*Lane, timeout time.Duration) []Sight {
	found := make([]Sight, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			reply, err := l.Peek(ctx, timeout)
			found[i] = Sight{PeekReply: reply, Lane: l, Received: l.env.Clock.Now(), Err: err}
		})
	}
	wg.Wait()
	return found
}
