package shardlimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// refund gives back what the decision was granted, once. A part that surely was
// not given back, because its node is away, may be tried again. due is when
// permits that were reserved could be used, on the client's clock, else 0.
func (c *core) refund(ctx context.Context, d Decision, due int64) error {
	now := c.client.now()
	if d.core == nil || d.core.client != c.client || d.core.id != c.id || d.Granted == 0 || now >= d.until {
		return nil
	}
	c = d.core // it knows what was refunded; a family may have forgotten the key meanwhile
	if c.refunded.tooOld(d.until) {
		return ErrRefundTooOld
	}
	if d.engine != nil {
		if c.refunded.claim(ticketKey{engine: d.engine, number: d.ticket}, now, d.until) {
			d.engine.refund(d)
			c.accounts.wake()
		}
		return nil
	}
	var errs []error
	for _, p := range d.parts() {
		key := ticketKey{first: d.first.seat, lease: d.lease, number: d.ticket, part: p.seat}
		if !c.refunded.claim(key, now, d.until) {
			continue
		}
		unsent, err := p.seat.refund(ctx, p, due)
		if err != nil {
			errs = append(errs, p.seat.lane.fail(err))
		}
		if unsent {
			c.refunded.release(key)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.accounts.wake()
	return nil
}

// refund gives back part of what the shard granted to the participant. unsent is true if the command
// surely was not executed. What was reserved counts as held until it is due, however early it is
// cancelled: others were told to come back then.
func (s *seat) refund(ctx context.Context, p part, due int64) (unsent bool, err error) {
	l := s.lane
	ctx, cancel := context.WithTimeout(ctx, l.core.client.cfg.CallTimeout)
	defer cancel()
	e, err := l.endpoint(ctx)
	if err != nil {
		return true, err
	}
	sent := l.core.client.now()
	r, err := e.scripts.Refund(ctx, l.ref, script.RefundRequest{
		Permits: p.n, At: p.at, Seat: s.name(), Held: time.Duration(max(sent, due) - p.from),
	})
	l.reportSince(e, sent, err)
	if err != nil {
		return script.NotExecuted(err), err
	}
	if r.Refunded > 0 {
		l.known.open()
		l.core.ahead.Store(nil)
		l.known.free.Store(r.Free)
		l.core.record().stir()
	}
	return false, nil
}

// peek reads the shard's state.
func (l *lane) peek(ctx context.Context, timeout time.Duration) (script.PeekReply, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e, err := l.endpoint(ctx)
	if err != nil {
		return script.PeekReply{}, err
	}
	sent := l.core.client.now()
	r, err := e.scripts.Peek(ctx, l.ref)
	l.reportSince(e, sent, err)
	return r, err
}
