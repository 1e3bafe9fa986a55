package scenario

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/internal/history"
)

// demand is calls that several clients make whatever is answered.
type demand struct {
	rate    float64   // calls per second of all clients
	weights []float64 // each client's part
	seed    uint64    // 0: evenly, in turn; else at random
	span    time.Duration
	workers int // calls under way at once, of all clients
}

// arrivals are the same for everybody who asks.
func (d demand) arrivals() load.Arrivals {
	if d.seed == 0 {
		return load.Even(d.rate, len(d.weights))
	}
	return load.Poisson(d.rate, d.weights, d.seed)
}

// instants are when the calls arrive.
func (d demand) instants() []time.Duration {
	var all []time.Duration
	for next := d.arrivals(); ; {
		a := next()
		if a.At >= d.span {
			return all
		}
		all = append(all, a.At)
	}
}

// rates are the calls per second of each client.
func (d demand) rates() []float64 {
	var sum float64
	for _, w := range d.weights {
		sum += w
	}
	rates := make([]float64, len(d.weights))
	for i, w := range d.weights {
		rates[i] = d.rate * w / sum
	}
	return rates
}

// outcome is what became of a demand.
type outcome struct {
	admitted []history.Op
	calls    int64 // that came
	unsent   int64 // of them, because too many calls were still under way
	failed   int64 // of them, with an error
	err      error // one of the errors
}

// offer makes the calls of the demand.
func offer(ctx context.Context, d demand, allows []rival.Allow) (outcome, error) {
	var (
		tallies = make([]*history.Tally, d.workers)
		record  history.Recorder
		failed  atomic.Int64
		mu      sync.Mutex
		o       outcome
	)
	for i := range tallies {
		tallies[i] = record.Tally()
	}
	plan := load.OpenPlan{Arrivals: d.arrivals(), For: d.span, Workers: d.workers}
	sample, err := load.Open(ctx, plan, func(ctx context.Context, due load.Due) {
		start := history.Now()
		ok, err := allows[due.Who](ctx)
		switch {
		case err != nil:
			failed.Add(1)
			mu.Lock()
			o.err = err
			mu.Unlock()
		case ok:
			tallies[due.Worker].Add(start, history.Now(), 1)
		}
	})
	o.admitted = record.Ops()
	o.calls, o.unsent = sample.Sent+sample.Unsent, sample.Unsent
	o.failed = failed.Load()
	return o, err
}

// offerRedisson has the JVM make the calls of the demand.
func offerRedisson(ctx context.Context, d demand, r *rival.Redisson, name string) (outcome, error) {
	got, err := r.Offer(ctx, name, d.seed, d.span, d.rates())
	return outcome{admitted: got.Admitted, calls: got.Calls, failed: got.Failed}, err
}
