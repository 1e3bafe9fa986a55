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
	batchesPerSecond = 30
)

// worker is one process of the fleet, with a client of its own.
type worker struct {
	name     string
	how      string // it asks
	client   *shardlimit.Client
	limiter  *shardlimit.Limiter
	permits  int64         // of one ask
	interval time.Duration // between asks
	patient  bool          // it waits for its permits; else it asks and goes on

	admitted atomic.Int64
	errors   atomic.Int64
	failure  atomic.Pointer[error] // the latest
}

// run asks until ctx is done.
func (w *worker) run(ctx context.Context, tally *history.Tally) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		start := history.Now()
		granted, err := w.ask(ctx)
		if granted > 0 {
			tally.Add(start, history.Now(), granted)
			w.admitted.Add(granted)
		}
		if err != nil && ctx.Err() == nil {
			w.errors.Add(1)
			w.failure.Store(&err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
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
