package demo

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Limits to what one worker asks of the embedded nodes, which serve only a few
// thousand calls a second: a worker that wants more asks for several permits at
// a time.
const (
	pollsPerSecond   = 250
	batchesPerSecond = 60
)

// worker is one process of the fleet, with a client of its own.
type worker struct {
	name     string
	how      string // it asks
	client   *shardlimit.Client
	limiter  *shardlimit.Limiter
	want     float64       // permits per second
	window   time.Duration // of the limit
	permits  int64         // of one ask
	interval time.Duration // between asks
	patient  bool          // it waits for its permits; else it asks and goes on

	asked    history.Recorder // unless it is patient
	got      history.Recorder
	asking   atomic.Int64 // permits asked for so far, unless it is patient
	admitted atomic.Int64
	errors   atomic.Int64
	failure  atomic.Pointer[error] // the latest
}

// run asks until ctx is done. Work that could not be begun in its time waits, though not for longer
// than a window.
func (w *worker) run(ctx context.Context) {
	asked, got, next := w.asked.Tally(), w.got.Tally(), time.Now()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		start := history.Now()
		granted, err := w.ask(ctx)
		now := history.Now()
		if !w.patient {
			asked.Add(start, now, w.permits)
			w.asking.Add(w.permits)
		}
		if granted > 0 {
			got.Add(start, now, granted)
			w.admitted.Add(granted)
		}
		if err != nil && ctx.Err() == nil {
			w.errors.Add(1)
			w.failure.Store(&err)
		}
		next = next.Add(w.interval)
		if oldest := time.Now().Add(-w.window); next.Before(oldest) {
			next = oldest
		}
		pause.Reset(time.Until(next))
	}
}

func (w *worker) ask(ctx context.Context) (int64, error) {
	if !w.patient {
		d, err := w.limiter.AllowUpTo(ctx, w.permits)
		return d.Granted, err
	}
	// A limit that was lowered below the size of the batch cannot grant it.
	n := min(w.permits, w.limiter.Limit().Permits)
	err := w.limiter.WaitN(ctx, n)
	if errors.Is(err, shardlimit.ErrExceedsLimit) {
		return 0, nil // lowered just now; the next ask is smaller
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}
