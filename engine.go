package shardlimit

import (
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// engine enforces a limit in this process alone, with the algorithm that the
// shards run. The zero value with a client is ready for use.
type engine struct {
	client *Client

	mu    sync.Mutex
	log   script.SlidingLog
	terms *script.Proposal
	epoch int64
	limit Limit  // that terms are for
	calls uint64 // makes tickets unique
}

// decide grants n permits of the limit: all or nothing, or up to n.
func (e *engine) decide(d *Decision, limit Limit, n int64, upTo bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Read under the lock: to the log, a caller that was overtaken on its way here
	// is a clock that went back, for which it makes up by running ahead.
	now := e.client.now()
	e.tune(limit)
	group := script.Group{Size: n, Count: 1}
	if upTo {
		group = script.Group{Size: 1, Count: n}
	}
	r := e.log.Take(now/1000, &script.TakeRequest{Proposal: e.terms, Groups: []script.Group{group}})
	e.calls++
	d.engine, d.ticket, d.until = e, e.calls, now+int64(limit.Per)
	d.Allowed, d.Granted = r.Granted > 0, r.Granted
	d.Remaining, d.ResetAfter = r.Free, r.Reset
	d.first = part{at: r.At, n: r.Granted}
	if !d.Allowed {
		d.RetryAfter = max(r.Retry, minRetry)
		if r.Retry < 0 { // more than there will ever be
			d.RetryAfter = limit.Per
		}
	}
}

// tune brings the log up to date with the limit. What was used stays.
func (e *engine) tune(limit Limit) {
	if e.limit.Permits == limit.Permits && e.limit.Per == limit.Per {
		return
	}
	e.limit = limit
	e.epoch++
	// A grant is dated up to a microsecond early, because the log counts whole ones.
	window := min(limit.Per+time.Microsecond, MaxWindow)
	terms, err := script.NewProposal(e.epoch, limit.Permits, limit.Permits, window, 0, false)
	if err != nil { // cannot be: the limit was validated
		e.client.cfg.Logger.Error("no local form of the limit", "limit", limit.String(), "err", err)
	}
	e.terms = terms
}

// note enters n permits that were granted elsewhere.
func (e *engine) note(limit Limit, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tune(limit)
	e.log.Take(e.client.now()/1000, &script.TakeRequest{
		Proposal: e.terms,
		Groups:   []script.Group{{Size: 1, Count: n}},
	})
}

// refund gives back what the engine granted.
func (e *engine) refund(d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Refund(e.client.now()/1000, script.RefundRequest{Permits: d.first.n, At: d.first.at})
}

// peek looks without taking.
func (e *engine) peek(limit Limit) script.PeekReply {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.client.now() / 1000
	e.tune(limit)
	e.log.Take(now, &script.TakeRequest{Proposal: e.terms}) // so that it knows the limit
	return e.log.Peek(now)
}

// clear forgets usage.
func (e *engine) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Clear(e.client.now() / 1000)
}
