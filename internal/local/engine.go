// Package local enforces a limit in one process alone: what a limit for each participant does, and
// in an outage a part of one for all.
package local

import (
	"math/bits"
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
	Burst     int64 // 0: as Permits
}

// most is how many permits there are at once.
func (l *Limit) most() int64 {
	if l.Algorithm.Bursty() && l.Burst > 0 {
		return l.Burst
	}
	return l.Permits
}

// far bounds sums: those of a few stay below 2^63.
const far = 1 << 60

// mulDiv is (a*b + c) / d and what is left, which is below d; far if it would be more.
func mulDiv(a, b, c, d int64) (whole, rest int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c), 0)
	if high+carry >= uint64(d) {
		return far, 0
	}
	q, r := bits.Div64(high+carry, low, uint64(d))
	return int64(min(q, far)), int64(r)
}

// rule is how permits are counted. Instants are nanoseconds since 1970.
type rule interface {
	// change puts a limit of the same algorithm in force. Used permits stay used.
	change(now int64, limit Limit)
	// used is how many permits count, and until when.
	used(now int64) (n, until int64)
	// earliest is the first instant at which n permits are free: not more than there are at once.
	earliest(now, n int64) int64
	// turn is when permit k acts, counted from 0, of those granted now.
	turn(now, k int64) int64
	// grant counts permits, which must be free unless they are charged. back knows them by at.
	grant(now, n int64) (at int64)
	// back returns how many of the permits it makes free again that were granted at that instant,
	// under the limit in force.
	back(now, at, n int64) int64
}

// Engine enforces a limit. The zero value with a clock is ready for use.
type Engine struct {
	Clock *clock.Clock

	mu    sync.Mutex
	rule  rule // nil until there is a limit
	limit Limit
	era   int64 // see Receipt
	owes  int64 // until when more counts than there is, because it was charged
}

// Grant is what an Engine said to one call.
type Grant struct {
	Granted int64
	Receipt
	First time.Duration // until the first permit may act
	Delay time.Duration // until the last permit may act
	Free  int64         // after it
	Reset time.Duration
	Retry time.Duration // if refused: until it could be granted; below 0: never
	Owes  bool          // more was charged than there is
}

// Receipt is what Settle needs of a Grant.
type Receipt struct {
	// At is the time of the last permit: in microseconds when it may act, for a leaky bucket; else
	// in nanoseconds when it was granted.
	At int64
	// Era tells apart what was granted before and after usage was forgotten, or counted anew.
	Era int64
}

// State is what is used of a limit.
type State struct {
	Used, Free int64
	Reset      time.Duration // until nothing is used
	Retry      time.Duration // until a permit is free
}

// time is the time of day as a node tells it: a fixed window has its edges where people expect
// them. It does not jump.
func (e *Engine) time() int64 { return e.Clock.Base.UnixNano() + e.Clock.Now() - 1 }

// tune puts the limit in force. Usage stays.
func (e *Engine) tune(now int64, limit Limit) {
	old := e.limit
	switch {
	case e.rule == nil:
		e.begin(now, limit)
	case old.Algorithm != limit.Algorithm:
		e.convert(now, limit)
	case old != limit:
		e.limit = limit
		e.rule.change(now, limit)
		if limit.Algorithm.Bursty() ||
			limit.Algorithm == script.AlgorithmFixedWindow && old.Window != limit.Window {
			e.era++
		}
	}
}

// convert has another algorithm count what was used as used now. How much a bucket let through in a
// window is not known: all that there may be, and a turn to come counts from when it comes.
func (e *Engine) convert(now int64, limit Limit) {
	old, before := e.limit, e.rule
	used, until := before.used(now)
	e.begin(now, limit)
	from, bucket := before.(*bucket)
	if w, ok := e.rule.(*window); !bucket || !ok {
		if used = min(used, e.free(now)); used > 0 {
			e.rule.grant(now, used)
		}
	} else if old.Algorithm == script.AlgorithmLeakyBucket && from.full+int64(limit.Window) > now {
		w.grant(until, limit.Permits)
	} else if from.granted+int64(limit.Window) > now {
		w.grant(now, limit.Permits)
	}
}

func (e *Engine) begin(now int64, limit Limit) {
	e.limit, e.owes = limit, 0
	e.era++
	if e.rule = new(window); limit.Algorithm.Bursty() {
		e.rule = new(bucket)
	}
	e.rule.change(now, limit)
}

// free is how many permits can be granted.
func (e *Engine) free(now int64) int64 {
	used, _ := e.rule.used(now)
	return max(e.limit.most()-used, 0)
}

// Take grants n permits of the limit: all or nothing, or up to n.
func (e *Engine) Take(limit Limit, n int64, upTo bool) (g Grant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.time()
	e.tune(now, limit)
	free := e.free(now)
	if upTo {
		n = min(n, max(free, 1))
	}
	if n <= free {
		g.First, g.Delay = time.Duration(e.rule.turn(now, 0)-now), time.Duration(e.rule.turn(now, n-1)-now)
		g.Granted, free = n, free-n
		g.Receipt = Receipt{e.rule.grant(now, n), e.era}
	} else if g.Retry = -1; n <= limit.most() {
		g.Retry = time.Duration(e.rule.earliest(now, n) - now)
	}
	used, until := e.rule.used(now)
	g.Free, g.Reset, g.Owes = free, time.Duration(until-now), now < e.owes && used > limit.most()
	return g
}

// Settle gives back permits of a grant, or charges permits of the limit that was enforced last. A
// bucket is charged what it gains within so long at the most. Settle returns how many. Nothing
// comes back of another era.
func (e *Engine) Settle(back int64, of Receipt, charge int64, owed time.Duration) (came, charged int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rule == nil { // nothing was granted
		return 0, 0
	}
	now := e.time()
	if back > 0 && of.Era == e.era {
		came = e.rule.back(now, of.At, back)
	}
	used, until := e.rule.used(now)
	charged = min(charge, e.limit.Permits, far-used)
	if e.limit.Algorithm.Bursty() {
		gained, _ := mulDiv(max(now+int64(owed)-until, 0), e.limit.Permits, 0, int64(e.limit.Window))
		charged = min(charge, gained)
	}
	if charged > 0 {
		e.rule.grant(now, charged)
		_, e.owes = e.rule.used(now)
	}
	return came, charged
}

// Peek looks without taking.
func (e *Engine) Peek(limit Limit) (s State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.time()
	e.tune(now, limit)
	used, until := e.rule.used(now)
	s = State{Used: used, Free: e.free(now), Reset: time.Duration(until - now)}
	if s.Free == 0 {
		s.Retry = time.Duration(e.rule.earliest(now, 1) - now)
	}
	return s
}

// Reset is the time until nothing counts that was granted or charged.
func (e *Engine) Reset() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rule == nil {
		return 0
	}
	now := e.time()
	_, until := e.rule.used(now)
	return time.Duration(until - now)
}

// Clear forgets usage.
func (e *Engine) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rule != nil {
		e.begin(e.time(), e.limit)
	}
}
