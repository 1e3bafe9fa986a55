package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

// watchGrace is how much longer than its context a script call may take before
// its asks are answered without it. Redis clients can overrun a context, for
// instance while they wait for somebody else's attempt to connect.
const watchGrace = 5 * time.Millisecond

// watchdog bounds the time of a call with asks, and is its context. A request has one for all its
// calls: context.WithTimeout would allocate for each of them.
type watchdog struct {
	env    *Env
	at     time.Time // when the context of the call under way ends
	done   chan struct{}
	ended  atomic.Bool
	over   atomic.Bool // the call was answered, or given up
	timer  *time.Timer
	calm   func() bool // Close rings no more; false: it does already
	giveUp func()      // answers its asks without a reply
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
	w.calm = context.AfterFunc(w.env.Ctx, w.ring)
}

// finish tells that the call has come back, and whether anybody waits for it: its asks are to be
// answered then. A context that ended cannot be used again.
func (w *watchdog) finish() (awaited, ended bool) {
	calm := w.calm()
	ended = !w.timer.Stop() || !calm || w.ended.Load() // the timer is set twice
	return w.over.CompareAndSwap(false, true), ended
}

// ring is the timer, and what Close does: first it ends the context of the call, then, if the call
// does not heed that, it answers the asks without it. In a process short of CPU a reply may be
// there that nobody has read. So those who have been woken are let run first, which takes as long
// there as a round of all that want a processor.
func (w *watchdog) ring() {
	if !w.ended.Load() {
		chance.Yield()
	}
	if w.over.Load() {
		return
	}
	if !w.ended.Swap(true) {
		close(w.done)
		w.timer.Reset(watchGrace)
	} else if w.over.CompareAndSwap(false, true) {
		w.giveUp()
	}
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
