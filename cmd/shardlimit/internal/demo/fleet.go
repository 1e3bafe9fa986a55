package demo

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
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
	running sync.WaitGroup
}

// newFleet makes workers of unequal appetite. Every other one waits for batches, the others poll.
// The limit has its number of shards.
func newFleet(ctx context.Context, nodes func() []shardlimit.Node, limit shardlimit.Limit, size int) (*fleet, error) {
	f := &fleet{}
	perSecond := float64(limit.Permits) / limit.Per.Seconds() * demand
	weights := float64(size*(size+1)) / 2
	for i := range size {
		w := newWorker(i, perSecond*float64(size-i)/weights, largestBatch(limit, size))
		w.window = limit.Per
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

// newWorker is one that wants so many permits per second.
func newWorker(i int, want float64, batch int64) *worker {
	w := &worker{name: fmt.Sprintf("worker %d", i+1), patient: i%2 == 1, want: want}
	if w.patient {
		w.permits = min(max(1, int64(want/batchesPerSecond+0.5)), batch)
	} else {
		w.permits = max(1, int64(want/pollsPerSecond+0.5))
	}
	w.interval = max(time.Millisecond, time.Duration(float64(w.permits)/want*float64(time.Second)))
	w.how = describe(w)
	return w
}

// largestBatch is half of what an equal part of a shard lets a participant have at once while the
// limit is lowered, see "Credit" in docs/fairness.md. Those who wait for more take turns at the
// shards, which leaves gaps.
func largestBatch(limit shardlimit.Limit, size int) int64 {
	part := loweredTo * float64(limit.Permits) / float64(size*max(limit.Shards, 1))
	return max(1, int64(max(0.15*part, 1.5*math.Sqrt(part))/2))
}

// wants are the permits per window that each worker wants: what it asked for lately, in permits per
// second, or, if it waits, what it would ask for if it had not to.
func (f *fleet) wants(asked []float64, window time.Duration) []int64 {
	all := make([]int64, len(f.workers))
	for i, w := range f.workers {
		want := w.want
		if !w.patient {
			want = asked[i]
		}
		all[i] = int64(want*window.Seconds() + 0.5)
	}
	return all
}

// accounts are the histories of all workers.
func (f *fleet) accounts(window time.Duration) []account {
	var all []account
	for _, w := range f.workers {
		all = append(all, account{w.name, w.want * window.Seconds(), w.patient, w.asked.Ops(), w.got.Ops()})
	}
	return all
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
		f.running.Go(func() { w.run(ctx) })
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

// asked returns what each worker has asked for so far; nothing of those that wait.
func (f *fleet) asked() []int64 {
	all := make([]int64, len(f.workers))
	for i, w := range f.workers {
		all[i] = w.asking.Load()
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
