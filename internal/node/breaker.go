package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

// How a breaker behaves. A broken connection is certain, a timeout may be a
// hiccup, so it takes two timeouts in a row to open.
const (
	breakerTimeouts = 2
	breakerMinPause = 50 * time.Millisecond
	breakerMaxPause = time.Second
)

// breaker keeps calls away from an endpoint that does not answer. While it is
// open no call is sent there; when its pause is over exactly one probe, which
// spends no permits, is let through. Time is an argument: nanoseconds on a
// clock of the caller's choice. Safe for concurrent use; ready costs two loads.
type breaker struct {
	open     atomic.Bool
	probeAt  atomic.Int64
	timeouts atomic.Int32 // in a row
	since    atomic.Int64 // when it opened, after calls had succeeded; 0: they do

	mu       sync.Mutex
	pause    time.Duration // until the next probe
	probing  bool
	closedAt int64 // when a probe closed it last
}

// ready reports whether calls may be sent.
func (b *breaker) ready() bool { return !b.open.Load() }

// claimProbe reports whether the caller shall probe now. Whoever gets true must
// call succeeded, timedOut or broke afterwards.
func (b *breaker) claimProbe(now int64) bool {
	if !b.open.Load() || now < b.probeAt.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() || b.probing || now < b.probeAt.Load() {
		return false
	}
	b.probing = true
	return true
}

// succeeded closes the breaker and reports whether it was open. A breaker that
// a probe has closed is on probation until a call succeeds too: it opens at the
// next timeout, and its pause goes on doubling. A node may answer probes, which
// only read, and refuse every call.
func (b *breaker) succeeded(now int64) bool {
	if !b.open.Load() && b.timeouts.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if b.open.Swap(false) {
		b.closedAt = now
		b.timeouts.Store(breakerTimeouts - 1)
		return true
	}
	b.timeouts.Store(0)
	b.pause = 0
	b.since.Store(0)
	return false
}

// timedOut notes a call without an answer and reports whether that opened the breaker.
func (b *breaker) timedOut(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeouts.Add(1) < breakerTimeouts && !b.open.Load() {
		return false
	}
	return b.trip(now)
}

// broke notes a connection that is refused or lost and reports whether that opened the breaker.
func (b *breaker) broke(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trip(now)
}

// trip opens the breaker, or lengthens its pause. Pauses double and are spread
// by a quarter, so that many processes do not probe in step.
func (b *breaker) trip(now int64) bool {
	if b.open.Load() && !b.probing {
		return false // a call that was under way when it opened
	}
	b.pause = min(max(2*b.pause, breakerMinPause), breakerMaxPause)
	spread := time.Duration(chance.N(int64(b.pause)/4 + 1))
	b.probeAt.Store(now + int64(b.pause+spread))
	b.probing = false
	if b.ready() && now-b.closedAt > int64(breakerMaxPause) {
		b.since.Store(now) // it was not in use meanwhile, but would have answered
	}
	b.since.CompareAndSwap(0, now)
	return !b.open.Swap(true)
}

// silentFor is how long no call was served, 0 while calls may be sent.
func (b *breaker) silentFor(now int64) time.Duration {
	since := b.since.Load()
	if since == 0 || b.ready() {
		return 0
	}
	return max(time.Duration(now-since), 0)
}
