package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

// How long a breaker stays open until the endpoint is looked at.
const (
	breakerMinPause = 50 * time.Millisecond
	BreakerMaxPause = time.Second
)

// breaker keeps calls away from an endpoint that does not answer. While it is
// open no call is sent there. When its pause is over one probe at a time, which
// spends no permits, is let through; Node.Serves may look beside it. Time is an argument:
// nanoseconds on a clock of the caller's choice. Safe for concurrent use; ready costs a load.
//
// A node whose breaker is open is away, for this process alone. It is lost where a membership
// says so (package membership).
type breaker struct {
	open    atomic.Bool
	probeAt atomic.Int64
	since   atomic.Int64 // when it opened, after calls had succeeded; 0: they do

	mu       sync.Mutex
	pause    time.Duration // until the next probe
	probing  bool
	closedAt int64 // when a probe closed it last
}

// ready reports whether calls may be sent.
func (b *breaker) ready() bool { return !b.open.Load() }

// claimProbe reports whether the caller shall probe now. Whoever gets true must
// call succeeded or broke afterwards.
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

// succeeded closes the breaker and reports whether it was open. If a probe has closed it, its pause
// goes on doubling until a call succeeds, too: a node may carry out probes and refuse every call.
func (b *breaker) succeeded(now int64) bool {
	if !b.open.Load() && b.since.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if b.open.Swap(false) {
		b.closedAt = now
		return true
	}
	b.pause = 0
	b.since.Store(0)
	return false
}

// broke opens the breaker, or lengthens its pause, and reports whether that opened it. Pauses
// double and are spread by a quarter, so that many processes do not probe in step.
func (b *breaker) broke(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() && !b.probing {
		return false // a call that was under way when it opened
	}
	b.pause = min(max(2*b.pause, breakerMinPause), BreakerMaxPause)
	spread := time.Duration(chance.N(int64(b.pause)/4 + 1))
	b.probeAt.Store(now + int64(b.pause+spread))
	b.probing = false
	if b.ready() && now-b.closedAt > int64(BreakerMaxPause) {
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
