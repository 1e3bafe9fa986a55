package demo

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

const (
	// demand is what the whole fleet wants, relative to the limit.
	demand = 1.6

	// Limits to what one worker asks of the embedded nodes, which serve only a few
	// thousand calls a second: a worker that wants more asks for several permits at
	// a time.
	pollsPerSecond   = 250
	batchesPerSecond = 60
)

// worker is one process of the fleet, with a client of its own.
type worker struct {
	name     string
	how      string // it asks
	client   *shardlimit.Client
	limiter  *shardlimit.Limiter
	want     int64         // permits per window
	window   time.Duration // of the limit
	permits  int64         // of one ask
	interval time.Duration // between asks
	patient  bool          // it waits for its permits; else it asks and goes on

	got      history.Recorder
	admitted atomic.Int64
	errors   atomic.Int64
	failure  atomic.Pointer[error] // the latest

	// of what is shown
	perSecond float64 // permits that it got lately
	counted   int64   // permits, in all,
	at        time.Time
}

// measure brings perSecond up to date, as a mean in which the past fades within a few seconds, or
// windows if they are longer.
func (w *worker) measure(now time.Time) {
	total := w.admitted.Load()
	if took := now.Sub(w.at).Seconds(); !w.at.IsZero() && took > 0 {
		part := min(1, took/max(w.window.Seconds(), 1))
		w.perSecond += part * (float64(total-w.counted)/took - w.perSecond)
	}
	w.counted, w.at = total, now
}

// newWorker makes one of a fleet of unequal appetite. Every other one waits for batches, the others
// poll. The limit has its number of shards.
func newWorker(i, fleet int, limit shardlimit.Limit) *worker {
	perSecond := float64(limit.Permits) / limit.Per.Seconds() * demand * float64(fleet-i) /
		(float64(fleet*(fleet+1)) / 2)
	w := &worker{name: fmt.Sprintf("worker %d", i+1), window: limit.Per,
		want: int64(perSecond*limit.Per.Seconds() + 0.5), patient: i%2 == 1}
	one, several := "Allow", "AllowUpTo"
	w.permits = max(1, int64(perSecond/pollsPerSecond+0.5))
	if w.patient {
		one, several = "Wait", "WaitN"
		w.permits = min(max(1, int64(perSecond/batchesPerSecond+0.5)), largestBatch(limit, fleet))
	}
	if w.how = one; w.permits > 1 {
		w.how = fmt.Sprintf("%s(%d)", several, w.permits)
	}
	w.interval = max(time.Millisecond, time.Duration(float64(w.permits)/perSecond*float64(time.Second)))
	return w
}

// largestBatch is half of what an equal part of a shard lets a participant have at once while the
// limit is lowered, see "Credit" in docs/fairness.md. Those who wait for more take turns at the
// shards, which leaves gaps.
func largestBatch(limit shardlimit.Limit, fleet int) int64 {
	part := loweredTo * float64(limit.Permits) / float64(fleet*max(limit.Shards, 1))
	return max(1, int64(max(0.15*part, 1.5*math.Sqrt(part))/2))
}

// run asks until ctx is done. Work that could not be begun in its time waits, though not for longer
// than a window.
func (w *worker) run(ctx context.Context) {
	got, next := w.got.Tally(), time.Now()
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
		if granted > 0 {
			got.Add(start, history.Now(), granted)
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
	if err := w.limiter.WaitN(ctx, w.permits); err != nil {
		return 0, err
	}
	return w.permits, nil
}
