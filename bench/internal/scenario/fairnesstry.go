package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// fairnessTry is one attempt to measure sharers at the same time.
type fairnessTry struct {
	of    []fairnessShare
	busy  float64       // % of all cores
	known bool          // whether that is
	still time.Duration // the longest that this machine let a process wait that had something to do
}

// fairnessShare is what one sharer did.
type fairnessShare struct {
	crowd    fleet.Crowd
	gathered fleet.Gathering
	used     server.Usage
	err      error
}

// measureAll measures again what a machine that stood still has disturbed. The attempt that it
// disturbed least counts, whatever came of it.
func (run *fairnessRun) measureAll(ctx context.Context, p population, at int, limit int64, together []*sharer) error {
	best, tries := leastDisturbed(run.size.window/fairnessStill, run.size.tries, func(number int) fairnessTry {
		return run.try(ctx, p, limit, together, number)
	})
	run.mu.Lock()
	defer run.mu.Unlock()
	if tries > 1 {
		run.result.Remark("%s, %d/s: measured %d times, because the machine stood still; in the one that counts for "+
			"%s at most.", p.name, limit, tries, best.still.Round(time.Millisecond))
	}
	for i, s := range together {
		if best.of[i].err == nil {
			run.note(p, at, limit, s, best.of[i])
			if best.known {
				run.found.add(s.name, float64(at), fairnessMetric("machine", limit), best.busy)
			}
		}
	}
	return best.err()
}

// leastDisturbed tries until the machine did not stand still for longer than it may, or there is an
// error, at most so many times.
func leastDisturbed(still time.Duration, most int, try func(number int) fairnessTry) (best fairnessTry, tries int) {
	best, tries = try(1), 1
	for best.err() == nil && best.still > still && tries < most {
		tries++
		if next := try(tries); next.still < best.still || next.err() != nil {
			best = next
		}
	}
	return best, tries
}

func (t fairnessTry) err() error {
	var errs []error
	for _, share := range t.of {
		errs = append(errs, share.err)
	}
	return errors.Join(errs...)
}

func (run *fairnessRun) try(ctx context.Context, p population, limit int64, together []*sharer,
	number int) fairnessTry {
	t := fairnessTry{of: make([]fairnessShare, len(together))}
	var wg sync.WaitGroup
	began, watched := machineTicks("/proc/stat"), watchStandstill()
	for i, s := range together {
		wg.Go(func() {
			if t.of[i] = run.measure(ctx, p, limit, s, number); t.of[i].err != nil {
				t.of[i].err = fmt.Errorf("%s: %w", s.name, t.of[i].err)
			}
		})
	}
	wg.Wait()
	t.still = watched()
	for _, share := range t.of {
		t.still = max(t.still, share.gathered.Lag)
	}
	t.busy, t.known = machineTicks("/proc/stat").busySince(began)
	return t
}

// watchStandstill begins to watch, and returns the function that ends it and tells how much later
// than it should a goroutine woke at most.
func watchStandstill() (ended func() time.Duration) {
	const step = 10 * time.Millisecond
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		var still time.Duration
		for {
			began := time.Now()
			select {
			case <-stop:
				worst <- still
				return
			case <-time.After(step):
				still = max(still, time.Since(began)-step)
			}
		}
	}()
	return func() time.Duration { close(stop); return <-worst }
}
