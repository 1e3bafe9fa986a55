package dispatch

import (
	"context"
	"time"
)

// spots is in how many steps of time a call timeout is, for calls that are parked: those whose time
// is up in the same step share a timer, and are not woken by the thousand.
const spots = 64

// Park keeps a call that was shed for so long, at most a call timeout, or until ctx or the client
// ends. A caller that is refused at once comes back at once, and then refusals, and not the calls
// that are served, have the processor.
func (e *Env) Park(ctx context.Context, left time.Duration) {
	now, each := e.Clock.Now(), max(int64(e.CallTimeout)/spots, 1)
	step := (now + int64(min(left, e.CallTimeout))) / each
	if step*each <= now {
		return
	}
	spot, known := e.parked.Load(step)
	if !known {
		over, end := context.WithCancel(e.Ctx)
		if spot, known = e.parked.LoadOrStore(step, over.Done()); known {
			end()
		} else {
			time.AfterFunc(time.Duration(step*each-now), func() { e.parked.Delete(step); end() })
		}
	}
	select {
	case <-spot.(<-chan struct{}):
	case <-ctx.Done():
	}
}
