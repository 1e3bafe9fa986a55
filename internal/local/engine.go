// Package local enforces a limit in one process alone, with the algorithm that the shards run.
package local

import (
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
)

// Limit is what an Engine enforces.
type Limit struct {
	Permits   int64
	Window    time.Duration
	Algorithm script.Algorithm
	Burst     int64         // 0: as Permits
	Memory    time.Duration // for how long a grant can still count
}

// Engine enforces a limit. The zero value with a clock is ready for use.
type Engine struct {
	Clock *clock.Clock

	mu    sync.Mutex
	log   script.Twin
	terms *script.Proposal
	epoch int64
	limit Limit // that terms are for
}

// Grant is what an Engine said to one call.
type Grant struct {
	Granted int64
	At      clock.ServerTime // what Settle needs
	First   time.Duration    // until the first permit may act
	Delay   time.Duration    // until the last permit may act
	Free    int64            // after it
	Reset   time.Duration
	Retry   time.Duration // if refused: until it could be granted; below 0: never
	Owes    bool          // see script.TakeReply
}

// Take grants n permits of the limit: all or nothing, or up to n.
func (e *Engine) Take(limit Limit, n int64, upTo bool) (g Grant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Read under the lock: to the log, a caller that was overtaken on its way here
	// is a clock that went back, for which it makes up by running ahead.
	if !e.tune(limit) {
		g.Retry = -1
		return g
	}
	group := script.Group{Size: n, Count: 1}
	if upTo {
		group = script.Group{Size: 1, Count: n}
	}
	r := e.log.Take(e.time(), &script.TakeRequest{Proposal: e.terms, Groups: []script.Group{group}})
	g.Granted, g.At, g.Free, g.Reset, g.Retry = r.Granted, r.At, r.Free, r.Reset, r.Retry
	g.Owes = r.Owes(e.terms)
	if r.Granted > 0 {
		g.At, g.First, g.Delay = r.RefundAt(r.Granted-1), r.Delay, r.DelayOf(r.Granted-1)
	}
	return g
}

// time is the time of day in microseconds, as a node tells it: a fixed window has its edges where
// people expect them. It does not jump.
func (e *Engine) time() int64 { return e.Clock.Base.UnixMicro() + e.Clock.Now()/1000 }

// tune brings the log up to date with the limit. Usage stays; under another
// algorithm it counts as used now. It changes nothing and reports false for a limit that no log can
// enforce.
func (e *Engine) tune(limit Limit) bool {
	old := e.limit
	if e.log != nil && old == limit {
		return true
	}
	window := limit.Window
	if limit.Algorithm != script.AlgorithmFixedWindow {
		// A grant is dated up to a microsecond early, because the log counts whole ones.
		window = min(window+time.Microsecond, script.MaxWindow)
	}
	terms, err := script.Terms{
		Epoch: e.epoch + 1, Target: limit.Permits, Floor: limit.Permits, Window: window,
		Algorithm: limit.Algorithm, Burst: limit.Burst,
	}.Proposal()
	if err != nil {
		return false
	}
	e.limit, e.terms, e.epoch = limit, terms, e.epoch+1
	if e.log != nil && old.Algorithm == limit.Algorithm {
		return true
	}
	var used int64
	if e.log != nil {
		used = e.log.Peek(e.time()).Used
	}
	e.log = script.NewTwin(limit.Algorithm)
	e.enter(used)
	return true
}

// enter takes as many permits as there are, up to n.
func (e *Engine) enter(n int64) {
	r := &script.TakeRequest{Proposal: e.terms}
	if n > 0 {
		r.Groups = []script.Group{{Size: 1, Count: n}}
	}
	e.log.Take(e.time(), r)
}

// Note enters n permits that were granted elsewhere.
func (e *Engine) Note(limit Limit, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tune(limit) {
		e.enter(n)
	}
}

// Settle gives back permits that the Engine granted at that time, or charges permits of the limit
// that was enforced last, as far as a bucket is full again within so long. It returns how many.
func (e *Engine) Settle(back int64, at clock.ServerTime, charge int64, owed time.Duration) (came, charged int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil { // no limit could be enforced yet
		return 0, 0
	}
	r := e.log.Settle(e.time(), script.SettleRequest{Proposal: e.terms, Back: back, At: at, Charge: charge, Owed: owed})
	return r.Back, r.Granted
}

// Peek looks without taking. Of a limit that no log can enforce nothing is free.
func (e *Engine) Peek(limit Limit) script.PeekReply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.tune(limit) {
		return script.PeekReply{}
	}
	e.enter(0) // so that it knows the limit
	return e.log.Peek(e.time())
}

// Reset is the time until nothing counts that was granted, booked or charged.
func (e *Engine) Reset() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil {
		return 0
	}
	return e.log.Peek(e.time()).Reset
}

// Clear forgets usage.
func (e *Engine) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log != nil {
		e.log.Clear(e.time())
	}
}

// Book reserves n permits of the limit that was enforced last, for the earliest instant at which
// there is room for them. It returns that instant, which is not after the deadline (0: none). If it
// grants nothing, late is after how long the permits would come.
func (e *Engine) Book(n, deadline int64) (g Grant, due int64, late time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil { // no limit could be enforced yet
		return g, 0, 0
	}
	req := &script.ReserveRequest{Proposal: e.terms, Permits: n, MaxDelay: script.MaxFill}
	if deadline != 0 {
		req.MaxDelay = min(req.MaxDelay, max(0, time.Duration(deadline-e.Clock.Now())))
	}
	r := e.log.Reserve(e.time(), req)
	if r.Granted == 0 {
		return g, 0, r.Retry
	}
	due = e.Clock.Now() + int64(r.Delay) + int64(time.Microsecond) // the log counts whole microseconds
	g.Granted, g.At = n, r.At
	return g, due, 0
}
