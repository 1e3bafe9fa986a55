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

// This file has the calls to one shard that go without a batch.

// run makes a call, without more.
func (sh *Shard) run(ctx context.Context, op telemetry.Operation, call func(context.Context, *call) error) error {
	ctx, c, err := sh.begin(ctx, op)
	if err != nil {
		return err
	}
	err = call(ctx, &c)
	c.Finish(ctx, err)
	return err
}

// Peek reads the shard's state.
func (sh *Shard) Peek(ctx context.Context, timeout time.Duration) (r script.PeekReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = sh.run(ctx, telemetry.Peek, func(ctx context.Context, c *call) (err error) {
		if r, err = c.Scripts.Peek(ctx, sh.Ref); err == nil {
			c.looked(&r)
		}
		return err
	})
	return r, err
}

// Clear forgets the shard's usage.
func (sh *Shard) Clear(ctx context.Context) error {
	return sh.run(ctx, telemetry.Clear, func(ctx context.Context, c *call) error {
		err := c.Scripts.Clear(ctx, sh.Ref)
		if err == nil {
			sh.Known.reset()
		}
		return err
	})
}

// Drop removes the shard.
func (sh *Shard) Drop(ctx context.Context) error {
	return sh.run(ctx, telemetry.Drop, func(ctx context.Context, c *call) error { return c.Scripts.Drop(ctx, sh.Ref) })
}

// Participants tells how those who contend for the shard stand.
func (sh *Shard) Participants(ctx context.Context) (r script.LedgerReply, err error) {
	err = sh.run(ctx, telemetry.Participants, func(ctx context.Context, c *call) (err error) {
		r, err = c.Scripts.Ledger(ctx, sh.Ref)
		return err
	})
	return r, err
}

// Propose offers these terms to the shard without asking for permits.
func (sh *Shard) Propose(ctx context.Context, t *Terms) (reply script.TakeReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, sh.env.CallTimeout)
	defer cancel()
	err = basis{sh, t}.present(ctx, told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := sh.begin(ctx, telemetry.Propose)
		if err != nil {
			return 0, 0, err
		}
		reply, err = c.Scripts.Take(ctx, sh.Ref, &script.TakeRequest{Proposal: t.Proposal, Relied: on.tell()})
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
type ReserveAsk struct {
	Permits  int64
	From     int64 // for no earlier instant
	Deadline int64 // for no later one; 0: none
}

// Reserve books permits for the participant. sent and received are when the call was made that the
// reply is to.
func (acc *Account) Reserve(ctx context.Context,
	b ReserveAsk) (reply script.ReserveReply, sent, received int64, err error) {
	sh := acc.Shard
	err = basis{shard: sh}.present(ctx, told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := sh.begin(ctx, telemetry.Reserve)
		if err != nil {
			return 0, 0, err
		}
		req := &script.ReserveRequest{
			Proposal: on.fixed.Proposal, Relied: on.tell(), Permits: b.Permits,
			MinDelay: max(0, time.Duration(b.From-c.Sent)),
			MaxDelay: 10 * script.MaxWindow, // the shard knows how far ahead it may be
			Caller:   acc.name(),
		}
		req.Caller.Waiting = min(b.Permits, fairness.MaxReport)
		if b.Deadline != 0 {
			req.MaxDelay = min(req.MaxDelay, max(0, time.Duration(b.Deadline-c.Sent)))
		}
		reply, err = c.Scripts.Reserve(ctx, sh.Ref, req)
		sent, received = c.Sent, c.Finish(ctx, err)
		switch {
		case err == nil && (!unserved(reply.Status) || on.fixed.Epoch == 0):
			c.heard(on.fixed, received, &reply.TakeReply)
		case err != nil && !script.NotExecuted(err):
			sh.env.Telemetry.Lost(sh.Metrics, b.Permits)
		}
		return reply.Status, reply.At, err
	})
	return reply, sent, received, err
}

// turnBy is Ask for a turn of a leaky bucket that comes in time. One that was taken and given back
// is a hole if others came behind it, so the shard gives none that is too late. A refusal tells
// when the turn comes.
func (acc *Account) turnBy(ctx context.Context, a *Ask, now int64) error {
	sh := acc.Shard
	a.Answer = Answer{Now: now, Rest: elsewhere(sh, now)}
	most := int64(sh.Known.ShutCap(sh.Terms.Load().Window))
	if next := sh.Known.ResetAt.Load(); next > a.By && sh.Known.Answered(now-most) {
		_ = basis{shard: sh}.expired() // which has the record read: nothing is asked that would tell of a change
		a.Retry = time.Duration(next - now)
		return nil
	}
	left := sh.env.CallTimeout - time.Duration(now-a.Since)
	if left <= 0 {
		return ErrOverloaded
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	r, _, received, err := acc.Reserve(ctx, ReserveAsk{Permits: a.N, Deadline: max(a.By, now)})
	switch {
	case err != nil && sh.env.Hurried(left) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case err != nil:
		return err
	}
	a.Answer = Answer{Granted: r.Granted, At: r.At, Now: received, Rest: r.Free + elsewhere(sh, received),
		Delay: r.Delay, Retry: r.Retry}
	switch {
	case r.Granted > 0:
		a.Ticket = sh.tickets.Add(1) << 20
	case r.Paced > 0:
		a.Retry = r.Paced
	case r.Retry > 0 && received+int64(r.Retry) <= a.By && r.Share > 0 && r.Share <= r.Target:
		// It comes in time, but the queue has no room for it before it is shorter.
		t := sh.Terms.Load()
		a.Retry = max(0, r.Retry-time.Duration(float64(t.Most-1)/float64(r.Share)*float64(t.Window)))
	}
	return nil
}

// Settle gives back what the shard granted to the participant, or charges it for more. A node whose
// breaker is open is not asked.
func (acc *Account) Settle(ctx context.Context, r script.SettleRequest) (reply script.SettleReply, err error) {
	sh := acc.Shard
	if !sh.Node.Reachable(sh.Slot) {
		return reply, sh.Node.Away(sh.Slot)
	}
	once := func(on basis) (script.Status, clock.ServerTime, error) {
		ctx, c, err := sh.begin(ctx, telemetry.Settle)
		if err != nil {
			return 0, 0, err
		}
		if r.Charge > 0 {
			r.Proposal = on.fixed.Proposal
			r.Relied = on.tell()
		}
		reply, err = c.Scripts.Settle(ctx, sh.Ref, r)
		received := c.Finish(ctx, err)
		switch {
		case err != nil || unserved(reply.Status):
		case r.Charge > 0:
			c.heard(on.fixed, received, &reply.TakeReply)
		case reply.Back > 0:
			sh.Known.returned(reply.Free, reply.Early)
		}
		return reply.Status, reply.At, err
	}
	if r.Charge > 0 {
		err = basis{shard: sh}.present(ctx, told{}, once)
	} else {
		_, _, err = once(basis{shard: sh})
	}
	return reply, err
}

// Sight is what a look at one shard found.
type Sight struct {
	script.PeekReply
	Shard    *Shard
	Received int64 // on the process' clock
	Err      error // why the shard did not answer
}

// Look peeks at shards at once. It returns what each says, in their order, and waits no longer than
// the timeout.
func Look(ctx context.Context, shards []*Shard, timeout time.Duration) []Sight {
	found := make([]Sight, len(shards))
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			reply, err := sh.Peek(ctx, timeout)
			found[i] = Sight{PeekReply: reply, Shard: sh, Received: sh.env.Clock.Now(), Err: err}
		})
	}
	wg.Wait()
	return found
}
