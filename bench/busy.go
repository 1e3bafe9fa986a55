package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/quiet"
)

// Policies for a machine that others use.
const (
	refuse = "refuse"
	wait   = "wait"
	mark   = "mark"
)

const (
	waitAtMost = 15 * time.Minute
	restFor    = time.Second // how long the machine is watched before something is measured
)

// errBusy means that others use the machine, so that figures would mean little.
var errBusy = errors.New("others use the machine")

// watch is how the machine is watched; tests have their own.
type watch struct {
	proc  string        // where Linux tells of itself
	look  func() string // the load averages now
	sleep func(ctx context.Context, d time.Duration)
}

// heed makes sure that the machine is quiet, as far as it was asked for and the system tells.
func (j *job) heed(ctx context.Context) error {
	if j.env.Smoke || j.busy == mark || len(j.scenarios) == 0 {
		return nil
	}
	for began := time.Now(); ; {
		why := j.disturbance(ctx)
		if why == "" || ctx.Err() != nil {
			return ctx.Err()
		}
		if j.busy == refuse || time.Since(began) > waitAtMost {
			return fmt.Errorf("%w: %s; end what runs beside it, or wait with --busy wait; with --busy mark it is "+
				"measured all the same, and marked", errBusy, why)
		}
		fmt.Fprintf(j.out, "waiting for a quiet machine: %s\n", why)
		j.watch.sleep(ctx, 10*time.Second)
		j.machine.Load = j.watch.look()
	}
}

// disturbance says who uses the machine now, "" for nobody.
func (j *job) disturbance(ctx context.Context) string {
	if quiet.Busy(j.machine.Load, j.machine.Cores) {
		return fmt.Sprintf("load averages %s on %d cores", j.machine.Load, j.machine.Cores)
	}
	rest, now := j.rest(ctx)
	return quiet.Between(rest, now, now).Why()
}

// rest watches the machine for a while in which this program does nothing. A smoke run has no time
// for it.
func (j *job) rest(ctx context.Context) (before, after quiet.Reading) {
	before = quiet.Read(j.watch.proc)
	if !j.env.Smoke {
		j.watch.sleep(ctx, restFor)
	}
	return before, quiet.Read(j.watch.proc)
}

func pause(ctx context.Context, d time.Duration) { _ = load.Sleep(ctx, d) } // its callers look at ctx
