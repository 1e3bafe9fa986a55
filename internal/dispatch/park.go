package dispatch

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// spot is where calls wait that were shed within a moment of each other: those of an overload are
// many thousands a second, so they share a timer and a channel.
type spot struct {
	since int64
	over  <-chan struct{}
}

// moment is in what time calls that are shed share a spot.
func (e *Env) moment() int64 { return int64(e.CallTimeout / 64) }

// Park keeps a call that was shed for so long, or until ctx or the client ends. A caller that is
// refused at once comes back at once, and then refusals, and not the calls that are served, have
// the processor.
func (e *Env) Park(ctx context.Context, left time.Duration) {
	if left < e.CallTimeout*3/4 { // most have nearly all of it
		clock.Sleep(ctx, left)
		return
	}
	now, s := e.Clock.Now(), e.parked.Load()
	if s == nil || now-s.since > e.moment() {
		over, end := context.WithCancel(e.Ctx)
		time.AfterFunc(left, end)
		s = &spot{now, over.Done()}
		e.parked.Store(s)
	}
	select {
	case <-s.over:
	case <-ctx.Done():
	}
}
