package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// spots is in how many steps of time a call timeout is, for calls that are parked: those whose time
// is up in the same step share a timer, and are not woken by the thousand.
const spots = 64

// parking is where calls that were shed wait. It is for many thousands of them a second, so none
// has a timer or a channel of its own.
type parking struct {
	ring [2 * spots]atomic.Pointer[spot] // by the step in which they end
	mu   sync.Mutex
}

// spot is where all calls wait that end in one step.
type spot struct {
	step int64
	over chan struct{}
	end  func()
}

// Park keeps a call that was shed for so long, at most a call timeout, or until ctx or the client
// ends. A caller that is refused at once comes back at once, and then refusals, and not the calls
// that are served, have the processor.
func (e *Env) Park(ctx context.Context, left time.Duration) {
	each := max(int64(e.CallTimeout)/spots, 1)
	now := e.Clock.Now()
	step := (now + int64(min(left, e.CallTimeout))) / each
	if step*each <= now {
		return
	}
	s := e.parked.ring[step%(2*spots)].Load()
	if s == nil || s.step != step {
		if s = e.spot(step, time.Duration(step*each-now)); s == nil {
			return
		}
	}
	done := ctx.Done()
	if done == nil {
		<-s.over
		return
	}
	select {
	case <-s.over:
	case <-done:
	}
}

// spot makes the spot of a step that ends after so long; nil if the client is closed.
func (e *Env) spot(step int64, left time.Duration) *spot {
	p := &e.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.ring[step%(2*spots)]
	if s := at.Load(); s != nil && s.step == step {
		return s
	}
	if e.Closed.Load() {
		return nil
	}
	s := &spot{step: step, over: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.over) })
	at.Store(s)
	time.AfterFunc(left, s.end)
	return s
}
