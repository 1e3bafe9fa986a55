package shardlimit

import (
	"errors"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// outage answers a call that no shard answered. t is nil if the limit could not
// be declared yet; cause is nil if no shard was asked.
func (c *core) outage(t *table, n int64, upTo bool, cause error) (Decision, error) {
	if c.client.closed.Load() {
		return Decision{}, ErrClosed
	}
	limit := c.declaration()
	if t != nil {
		limit = t.limit
	}
	d := Decision{Limit: limit.Permits, Degraded: true, source: sourceLocal, core: c}
	switch c.client.cfg.OnOutage {
	case FailOpen:
		d.Allowed, d.Granted = true, n
		return d, nil
	case FailLocal:
		c.local.decide(&d, limit, n, upTo)
		return d, nil
	}
	if cause == nil {
		cause = t.absence(c.client.now())
	}
	return Decision{}, errors.Join(ErrUnavailable, cause)
}

// absence tells why no shard was asked: foreign state, of which somebody should
// know, or else that the nodes are away.
func (t *table) absence(now int64) error {
	var away error
	for _, l := range t.lanes {
		if now < l.shunUntil.Load() {
			return l.fail(*l.shunned.Load())
		}
		if away == nil && !l.node.ready(l.slot) {
			away = l.fail(errNodeAway)
		}
	}
	return away
}

// local enforces this process' part of a limit by itself while Redis is away,
// with the same algorithm that the shards run. It is kept up to date while Redis
// is there, so that an outage does not hand the window out a second time.
type local struct {
	core *core

	mu    sync.Mutex
	log   script.SlidingLog
	terms *script.Proposal
	epoch int64
	part  int64
	per   time.Duration
	calls uint64 // makes tickets unique
}

// decide grants n permits from this process' part: all or nothing, or up to n.
func (lo *local) decide(d *Decision, limit Limit, n int64, upTo bool) {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	// Read under the lock: to the log, a caller that was overtaken on its way here
	// is a clock that went back, for which it makes up by running ahead.
	now := lo.core.client.now()
	lo.tune(limit)
	group := script.Group{Size: n, Count: 1}
	if upTo {
		group = script.Group{Size: 1, Count: n}
	}
	r := lo.log.Take(now/1000, &script.TakeRequest{Proposal: lo.terms, Groups: []script.Group{group}})
	lo.calls++
	d.ticket, d.until = lo.calls, now+int64(limit.Per)
	d.Allowed, d.Granted = r.Granted > 0, r.Granted
	d.Remaining, d.ResetAfter = r.Free, r.Reset
	d.first = part{at: r.At, n: r.Granted}
	if !d.Allowed {
		d.RetryAfter = max(r.Retry, minRetry)
		if r.Retry < 0 { // more than this process' part will ever be
			d.RetryAfter = limit.Per
		}
	}
}

// tune makes the part what it should be: the limit divided by the participants
// last heard of, at least one permit.
func (lo *local) tune(limit Limit) {
	part := max(1, limit.Permits/lo.core.record().participants.Load())
	if part == lo.part && limit.Per == lo.per {
		return
	}
	lo.part, lo.per = part, limit.Per
	lo.epoch++
	terms, err := script.NewProposal(lo.epoch, part, part, limit.Per, 0, false)
	if err != nil { // cannot be: the limit was validated
		lo.core.client.cfg.Logger.Error("no local part of the limit", "limiter", lo.core.name, "err", err)
	}
	lo.terms = terms
}

// granted notes what Redis granted to this process.
func (lo *local) granted(n int64) {
	if lo.core.client.cfg.OnOutage != FailLocal || n == 0 {
		return
	}
	t := lo.core.table.Load()
	if t == nil {
		return // deleted just now
	}
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.tune(t.limit)
	lo.log.Take(lo.core.client.now()/1000, &script.TakeRequest{
		Proposal: lo.terms,
		Groups:   []script.Group{{Size: 1, Count: n}},
	})
}

// refund gives back what the local part granted.
func (lo *local) refund(d Decision) {
	if d.first.n == 0 {
		return // allowed by FailOpen
	}
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.log.Refund(lo.core.client.now()/1000, script.RefundRequest{Permits: d.first.n, At: d.first.at})
}
