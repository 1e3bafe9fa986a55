package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Charge counts n permits as used, whether they are free or not: what a call turned out to cost
// beyond what it asked for. What is free is taken first; the rest is owed, and calls are denied
// until it is paid. n may be more than the limit.
//
//   - A TokenBucket pays what it owes at its rate. Under LeakyBucket the next turns come later.
//   - Under SlidingLog, SlidingCounter and FixedWindow what is owed counts until the window is
//     over. More than the limit makes no difference there, so no more is counted.
//
// What is owed is divided over the shards. In the Decision Granted is how many permits were
// counted, and Refund gives them back, as far as they have not been paid. Delay and RetryAfter are
// 0.
//
// Charged permits are beside the bound of the limit, as they were used already: decisions admit so
// much less afterwards. A node that loses its memory, or is taken over, forgets what it is owed.
//
// Errors are those of AllowUpTo, and three more:
//
//   - ErrLimitClosed in the mode Closed, in which AllowUpTo is a denial.
//   - ErrOwesTooMuch if a bucket owes so much that paying it takes an hour, or two bursts if that
//     is longer (a minute for a key of a Family, two bursts with Failover), or if a shard of it is
//     to count more than MaxPermits. Granted tells how much was counted.
//   - A *ShardError for each shard that did not answer, whose part was not counted, as far as is
//     known, and for each that is shut because its node lost its memory.
//
// Without any shard OnOutage decides: FailOpen counts nothing, FailLocal in this process' part.
func (l *Limiter) Charge(ctx context.Context, n int64) (d Decision, err error) {
	return l.member.charge(ctx, n)
}

func (m *member) charge(ctx context.Context, n int64) (d Decision, err error) {
	c := m.core
	start := c.client.now()
	r, _, err := m.admit(ctx, n, true)
	if err != nil {
		return Decision{}, err
	}
	switch mode := c.mode(r); {
	case mode == Closed:
		d.source, err = telemetry.Local, ErrLimitClosed
	case mode == Off:
		m.byMode(r, n, true, &d)
	case r == nil:
		err = m.unknown(n, true, &d)
	default:
		err = m.some(ctx, r, n, start, &d)
	}
	if err == nil && d.Granted < n {
		err = m.overdraw(ctx, r, n-d.Granted, start, &d)
	}
	d.Allowed, d.Delay, d.RetryAfter = d.Granted > 0, 0, 0
	c.decided(ctx, &d, n, start, err)
	return d, err
}

// overdraw counts n permits that are not free. d has what was free.
func (m *member) overdraw(ctx context.Context, r *routes, n, start int64, d *Decision) error {
	owed := m.core.mostOwed(r)
	if d.engine != nil {
		g := d.engine.Charge(min(n, MaxPermits), owed)
		d.addPart(lane.Part{At: g.At, N: g.Granted}, g.Ticket)
		d.until, d.Remaining, d.ResetAfter = max(d.until, g.Until), g.Free, g.Reset
		return m.core.owes(r, n, g.Granted)
	}
	if r == nil || d.Degraded { // nobody counts
		d.Granted += n
		return nil
	}
	return m.overdrawShards(ctx, r, n, owed, start, d)
}

// mostOwed is how long paying may take what a bucket owes.
func (c *core) mostOwed(r *routes) time.Duration {
	limit := c.limitOf(r)
	return limit.ahead() + time.Duration(float64(limit.most())/float64(limit.Permits)*float64(limit.Per))
}

// owes is the error if less was counted of n permits than makes a difference.
func (c *core) owes(r *routes, n, counted int64) error {
	if counted == n || counted > 0 && !c.limitOf(r).Algorithm.bursty() {
		return nil
	}
	return fmt.Errorf("%w: %d of %d permits are not counted", ErrOwesTooMuch, n-counted, n)
}

// charged is what became of a shard's part of a charge.
type charged struct {
	lane.Part
	moved int64 // that others are to count
	err   error
}

// overdrawShards has every shard count its part of n permits. Those without a share, because it is
// on its way to them, leave their part to the others.
func (m *member) overdrawShards(ctx context.Context, r *routes, n int64, owed time.Duration, start int64,
	d *Decision) error {
	c, before := m.core, d.Granted
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout-time.Duration(c.client.now()-start))
	defer cancel()
	var errs []error
	for seats := m.view(r).visit; n > 0 && len(seats) > 0; {
		all := c.overdrawAll(ctx, r, seats, n, owed)
		var able []*lane.Seat
		n = 0
		for i, one := range all {
			d.addPart(one.Part, c.ownTicket())
			n += one.moved
			if one.err != nil {
				errs = append(errs, one.err)
			} else if one.moved == 0 {
				able = append(able, seats[i])
			}
		}
		seats = able
	}
	if n > 0 {
		errs = append(errs, fmt.Errorf("%w: no shard can count %d of the permits", ErrOwesTooMuch, n))
	}
	c.describe(d, r, r.free(), c.client.now())
	c.noteGranted(d.Granted - before)
	if e := c.gone(ctx, nil); e != nil && errors.Join(errs...) != nil {
		return errors.Join(append(errs, e)...)
	}
	return errors.Join(errs...)
}

// overdrawAll has the shards count their parts of n permits, all at once.
func (c *core) overdrawAll(ctx context.Context, r *routes, seats []*lane.Seat, n int64, owed time.Duration) []charged {
	parts, all := partsOf(seats, n), make([]charged, len(seats))
	var wg sync.WaitGroup
	for i, s := range seats {
		if parts[i] > 0 {
			wg.Go(func() { all[i] = c.overdrawOne(ctx, r, s, parts[i], owed) })
		}
	}
	wg.Wait()
	return all
}

// errShut is why a shard in quarantine counts nothing.
var errShut = errors.New("it has lost its memory and is shut until nothing of that matters")

// overdrawOne has a shard count n permits. It hears of no more than MaxPermits, which is as much as
// makes a difference, or more than a bucket may owe.
func (c *core) overdrawOne(ctx context.Context, r *routes, s *lane.Seat, n int64, owed time.Duration) charged {
	reply, sent, _, err := s.Reserve(ctx, lane.Booking{Permits: min(n, MaxPermits), Ahead: owed, Charge: true})
	switch {
	case err != nil:
		return charged{err: s.Lane.Fail(err)}
	case reply.Closed > 0:
		return charged{err: s.Lane.Fail(errShut)}
	case reply.Share == 0:
		return charged{moved: n}
	}
	return charged{
		Part: lane.Part{Seat: s, At: reply.At, N: reply.Granted, From: sent}, err: c.owes(r, n, reply.Granted)}
}

// partsOf divides n permits over shards by what each can have.
func partsOf(seats []*lane.Seat, n int64) []int64 {
	parts, sum := make([]int64, len(seats)), 0.0
	for _, s := range seats {
		sum += float64(s.Lane.Most())
	}
	for i, s := range seats {
		most := float64(s.Lane.Most())
		if parts[i] = n; most < sum {
			parts[i] = min(n, int64(float64(n)*most/sum+0.5))
		}
		n, sum = n-parts[i], sum-most
	}
	return parts
}
