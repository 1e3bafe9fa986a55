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
	log   script.Twin
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
	r := e.log.Take(e.clock(), &script.TakeRequest{Proposal: e.terms, Groups: []script.Group{group}})
	e.calls++
	d.engine, d.ticket, d.until = e, e.calls, now+int64(limit.memory())
	d.Allowed, d.Granted = r.Granted > 0, r.Granted
	d.Remaining, d.ResetAfter = r.Free, r.Reset
	d.first = part{at: r.At, n: r.Granted}
	if r.Granted > 0 {
		d.first.at, d.Delay = r.RefundAt(r.Granted-1), r.DelayOf(r.Granted-1)
	}
	if !d.Allowed {
		d.RetryAfter = max(r.Retry, minRetry)
		if r.Retry < 0 { // more than there will ever be
			d.RetryAfter = limit.Per
		}
	}
}

// clock is the time of day in microseconds, as a node tells it: a FixedWindow has its edges where people
// expect them. It does not jump.
func (e *engine) clock() int64 { return e.client.clock.Base.UnixMicro() + e.client.now()/1000 }

// tune brings the log up to date with the limit. What was used stays; under another
// algorithm it counts as used now.
func (e *engine) tune(limit Limit) {
	old := e.limit
	if e.log != nil && old.Permits == limit.Permits && old.Per == limit.Per && old.Algorithm == limit.Algorithm && old.Burst == limit.Burst {
		return
	}
	e.limit = limit
	e.epoch++
	window := limit.Per
	if limit.Algorithm != FixedWindow {
		// A grant is dated up to a microsecond early, because the log counts whole ones.
		window = min(window+time.Microsecond, MaxWindow)
	}
	terms, err := script.Terms{
		Epoch: e.epoch, Target: limit.Permits, Floor: limit.Permits, Window: window,
		Algorithm: limit.Algorithm.inScripts(), Burst: limit.Burst,
	}.Proposal()
	if err != nil { // cannot be: the limit was validated
		e.client.cfg.Logger.Error("no local form of the limit", "limit", limit.String(), "err", err)
	}
	e.terms = terms
	if e.log != nil && old.Algorithm == limit.Algorithm {
		return
	}
	var used int64
	if e.log != nil {
		used = e.log.Peek(e.clock()).Used
	}
	e.log = script.NewTwin(limit.Algorithm.inScripts())
	e.enter(used)
}

// enter takes as many permits as there are, up to n.
func (e *engine) enter(n int64) {
	r := &script.TakeRequest{Proposal: e.terms}
	if n > 0 {
		r.Groups = []script.Group{{Size: 1, Count: n}}
	}
	e.log.Take(e.clock(), r)
}

// note enters n permits that were granted elsewhere.
func (e *engine) note(limit Limit, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tune(limit)
	e.enter(n)
}

// refund gives back what the engine granted.
func (e *engine) refund(d Decision) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Refund(e.clock(), script.RefundRequest{Permits: d.first.n, At: d.first.at})
}

// peek looks without taking.
func (e *engine) peek(limit Limit) script.PeekReply {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tune(limit)
	e.enter(0) // so that it knows the limit
	return e.log.Peek(e.clock())
}

// clear forgets usage.
func (e *engine) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log != nil {
		e.log.Clear(e.clock())
	}
}
