package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watchGrace is how much longer than its context a script call may take before
// its asks are answered without it. Redis clients can overrun a context, for
// instance while they wait for somebody else's attempt to connect.
const watchGrace = 5 * time.Millisecond

// watchdog bounds the time of a call with asks, and is its context. A flight has one for all its
// calls: context.WithTimeout would allocate for each of them.
type watchdog struct {
	env    *Env
	at     time.Time // when the context of the call under way ends
	done   chan struct{}
	ended  atomic.Bool
	over   atomic.Bool // the call was answered, or given up
	timer  *time.Timer
	giveUp func() // answers its asks without a reply
}

// watch has the watchdog of a call made, which is given up by that.
func (w *watchdog) watch(e *Env, giveUp func()) {
	w.env, w.done, w.giveUp = e, make(chan struct{}), giveUp
	w.timer = time.AfterFunc(time.Hour, w.ring)
	w.timer.Stop()
}

// begin has the call end at the latest when its budget is used up.
func (w *watchdog) begin(now int64, budget time.Duration) {
	w.over.Store(false)
	w.at = w.env.Clock.At(now + int64(budget))
	w.timer.Reset(budget)
	w.env.air.note(w, true)
	if w.env.Closed.Load() { // Close may have looked for calls before this one began
		w.expire()
	}
}

// finish tells that the call has come back, and whether anybody waits for it: its asks are to be
// answered then. A context that ended cannot be used again.
func (w *watchdog) finish() (awaited, ended bool) {
	ended = !w.timer.Stop() || w.ended.Load() // the timer is set twice
	w.env.air.note(w, false)
	return w.over.CompareAndSwap(false, true), ended
}

// ring is the timer, and what Close does: first it ends the context of the call, then, if the call
// does not heed that, it answers the asks without it.
func (w *watchdog) ring() {
	if w.expire() {
		w.timer.Reset(watchGrace)
		return
	}
	if w.over.CompareAndSwap(false, true) {
		w.giveUp()
	}
}

// expire ends the context and reports whether it had not ended before.
func (w *watchdog) expire() bool {
	if w.ended.Swap(true) {
		return false
	}
	close(w.done)
	return true
}

func (w *watchdog) Deadline() (time.Time, bool) { return w.at, true }
func (w *watchdog) Done() <-chan struct{}       { return w.done }
func (w *watchdog) Value(any) any               { return nil }

func (w *watchdog) Err() error {
	if w.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// air is the calls with asks that are under way in a process.
type air struct {
	mu    sync.Mutex
	calls map[*watchdog]struct{}
}

// note notes that a call is under way, or no more.
func (a *air) note(w *watchdog, flies bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !flies {
		delete(a.calls, w)
		return
	}
	if a.calls == nil {
		a.calls = make(map[*watchdog]struct{})
	}
	a.calls[w] = struct{}{}
}

// Abandon ends the calls that are under way without waiting for their replies, and the wait of all
// that are parked. The client is closed.
func (e *Env) Abandon() {
	e.parked.mu.Lock()
	for i := range e.parked.ring {
		if s := e.parked.ring[i].Load(); s != nil {
			s.end()
		}
	}
	e.parked.mu.Unlock()
	e.air.mu.Lock()
	all := slices.Collect(maps.Keys(e.air.calls))
	e.air.mu.Unlock()
	for _, w := range all {
		w.ring()
	}
}
