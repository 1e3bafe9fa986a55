package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// demand is what the whole fleet wants, relative to the limit.
const demand = 1.6

// callTimeout is long, because nodes, workers and screen share the processors
// of this machine, which may have other things to do.
const callTimeout = time.Second

// limitName is the name of the demo's limit.
const limitName = "demo"

// fleet is all workers.
type fleet struct {
	workers []*worker
	record  history.Recorder
	running sync.WaitGroup
}

// newFleet makes workers of unequal appetite. Every other one waits for batches,
// the others poll.
func newFleet(ctx context.Context, nodes func() []shardlimit.Node, limit shardlimit.Limit, size int) (*fleet, error) {
	f := &fleet{}
	perSecond := float64(limit.Permits) / limit.Per.Seconds() * demand
	weights := float64(size*(size+1)) / 2
	for i := range size {
		w := &worker{patient: i%2 == 1}
		want := perSecond * float64(size-i) / weights // permits per second
		most := float64(pollsPerSecond)
		if w.patient {
			most = batchesPerSecond
		}
		w.permits = max(1, int64(want/most+0.5))
		w.interval = max(time.Millisecond, time.Duration(float64(w.permits)/want*float64(time.Second)))
		w.name = fmt.Sprintf("worker %d", i+1)
		w.how = describe(w)
		var err error
		if w.client, err = shardlimit.New(shardlimit.Config{Nodes: nodes(), Participant: w.name,
			CallTimeout: callTimeout}); err != nil {
			f.close()
			return nil, err
		}
		f.workers = append(f.workers, w)
		if w.limiter, err = w.client.Limiter(ctx, limitName, limit); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

func describe(w *worker) string {
	switch {
	case w.patient && w.permits == 1:
		return "Wait"
	case w.patient:
		return fmt.Sprintf("WaitN(%d)", w.permits)
	case w.permits == 1:
		return "Allow"
	}
	return fmt.Sprintf("AllowUpTo(%d)", w.permits)
}

// start lets every worker ask until ctx is done.
func (f *fleet) start(ctx context.Context) {
	for _, w := range f.workers {
		tally := f.record.Tally()
		f.running.Go(func() { w.run(ctx, tally) })
	}
}

// admitted returns what each worker has got so far.
func (f *fleet) admitted() []int64 {
	all := make([]int64, len(f.workers))
	for i, w := range f.workers {
		all[i] = w.admitted.Load()
	}
	return all
}

// errors counts the calls that failed.
func (f *fleet) errors() int64 {
	var n int64
	for _, w := range f.workers {
		n += w.errors.Load()
	}
	return n
}

// failure is an error of the fleet, the latest of one of its workers; nil without any.
func (f *fleet) failure() error {
	for _, w := range f.workers {
		if err := w.failure.Load(); err != nil {
			return *err
		}
	}
	return nil
}

func (f *fleet) close() {
	for _, w := range f.workers {
		w.client.Close()
	}
}
