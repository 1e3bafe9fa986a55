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
	over <-chan struct{}
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
		s = e.spot(step, time.Duration(step*each-now))
	}
	select {
	case <-s.over:
	case <-ctx.Done():
	}
}

// spot makes the spot of a step that ends after so long, or with the client.
func (e *Env) spot(step int64, left time.Duration) *spot {
	p := &e.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.ring[step%(2*spots)]
	if s := at.Load(); s != nil && s.step == step {
		return s
	}
	over, end := context.WithCancel(e.Ctx)
	time.AfterFunc(left, end)
	s := &spot{step, over.Done()}
	at.Store(s)
	return s
}
