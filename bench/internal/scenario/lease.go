package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

var lease = Scenario{
	Name:  "lease",
	Title: "decisions from permits held in advance",
	Takes: 50 * time.Second,
	Question: `The length of a lease against speed and against accuracy; 0 is no lease: every decision
asks Redis. Speed: one process, one server, a limit that is never reached, a closed loop
by as many goroutines as there are cores and by many; CPU and allocations are those of
the whole process, the loop included. Accuracy: several clients, two servers, a random
(Poisson) demand beyond the limit, and the window, wherever it begins, that wholly
contains the most admitted calls: more than 100 % is a broken limit. A leased permit
comes back a window after the end of its lease, so under pressure about Per of every
Per + Lease of the limit can be used; the last table shows what was.`,
	Run: runLease,
}

var (
	// leaseSpeedLimit leaves room for leases of any size.
	leaseSpeedLimit = rival.Limit{Permits: 100_000_000_000, Per: time.Second}
	leaseLimit      = rival.Limit{Permits: 10_000, Per: time.Second}
)

const (
	leaseDemand  = 1.5 // times the limit
	leaseClients = 4
	leaseNodes   = 2
	leaseWorkers = 256 // calls under way at once
)

// leaseRun is one run of the scenario.
type leaseRun struct {
	servers farm
	span    time.Duration // of speed
	windows int           // of accuracy, after the first
	found   *findings
	result  *report.Result
}

func runLease(ctx context.Context, env Env, result *report.Result) error {
	lengths := []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}
	run := &leaseRun{
		span:    env.span(100*time.Millisecond, 800*time.Millisecond),
		windows: env.windows(leaseLimit.Per, 1, 4),
		found:   newFindings(), result: result,
	}
	if env.Smoke {
		lengths = []time.Duration{0, 20 * time.Millisecond}
	}
	rounds := env.rounds(3)
	x := "lease, ms"
	result.Views = []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: x, Plot: true, Nominal: true,
			LogY: true},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "ns", X: x, Plot: true, Nominal: true, LogY: true},
		{Metric: "allocs", Title: "Allocations per decision", Unit: "allocations", X: x},
		{Metric: "most", Title: "Most permits in any window", Unit: "% of the limit", X: x, Plot: true, Nominal: true,
			Mark: 100},
		{Metric: "used", Title: "Permits used per window, mean and least", Unit: "% of the limit", X: x, Plot: true,
			Nominal: true},
	}
	setting(result, "Limit, for speed", "%d permits per %s, never reached", leaseSpeedLimit.Permits,
		leaseSpeedLimit.Per)
	setting(result, "Limit, for accuracy", "%d permits per %s, a demand of %v times as much by %d clients, %d servers",
		leaseLimit.Permits, leaseLimit.Per, leaseDemand, leaseClients, leaseNodes)
	setting(result, "Rounds", "%d of %s and of %d windows after the first, for each point", rounds, run.span,
		run.windows)

	var err error
	if run.servers, err = env.startFarm(ctx, result, leaseNodes); err != nil {
		return err
	}
	defer run.servers.close()
	for round := range rounds {
		for _, i := range rotated(len(lengths), round) {
			name := fmt.Sprintf("lease-%d-%d", round, i)
			if err := run.speed(ctx, name, lengths[i]); err != nil {
				return fmt.Errorf("speed with a lease of %s: %w", lengths[i], err)
			}
			if err := run.accuracy(ctx, name, lengths[i], uint64(round+1)); err != nil {
				return fmt.Errorf("accuracy with a lease of %s: %w", lengths[i], err)
			}
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	run.found.addTo(result)
	return nil
}

func (run *leaseRun) speed(ctx context.Context, name string, length time.Duration) error {
	h, err := rival.Sharded{Addrs: run.servers.addrs(1), Lease: length}.Open(leaseSpeedLimit)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, g := range []int{runtime.GOMAXPROCS(0), 256} {
		allow, err := h.Limiter(ctx, fmt.Sprintf("%s-%d", name, g))
		if err != nil {
			return err
		}
		sample, allocs, err := loadCounted(ctx, load.Plan{Goroutines: g, Warm: run.span / 2, For: run.span}, allow)
		if err != nil {
			return err
		}
		series, x := fmt.Sprintf("%d goroutines", g), millis(length)
		run.found.add(series, x, "rate", sample.PerSecond())
		run.found.add(series, x, "cpu", 1e3*sample.CPUMicros())
		run.found.add(series, x, "allocs", allocs)
		if bad := sample.Denied + sample.Failed; bad > 0 {
			run.result.Remark("With a lease of %s, %d goroutines: %d calls denied and %d failed (for example: %v), "+
				"although the limit was not reached.",
				length, g, sample.Denied, sample.Failed, sample.Err)
		}
	}
	return nil
}

func (run *leaseRun) accuracy(ctx context.Context, name string, length time.Duration, seed uint64) error {
	sharded := rival.Sharded{Addrs: run.servers.addrs(leaseNodes), Lease: length}
	c, err := openCrew(ctx, "shardlimit", leaseClients, false,
		func() (rival.Handle, error) { return sharded.Open(leaseLimit) })
	if err != nil {
		return err
	}
	defer c.close()
	allows, err := c.limiters(ctx, name+"-accuracy")
	if err != nil {
		return err
	}
	o, err := offer(ctx, demand{
		rate:    leaseDemand * float64(leaseLimit.Permits) / leaseLimit.Per.Seconds(),
		weights: load.Zipf(leaseClients, 0),
		seed:    seed,
		span:    time.Duration(run.windows+1)*leaseLimit.Per + leaseLimit.Per/10,
		workers: leaseWorkers,
	}, allows)
	if err != nil {
		return err
	}
	v := judge(leaseLimit.Per, leaseLimit.Permits, run.windows, o.admitted)
	run.found.add("busiest window", millis(length), "most", 100*v.most)
	run.found.add("mean", millis(length), "used", 100*v.mean)
	run.found.add("least", millis(length), "used", 100*v.least)
	if o.failed+o.unsent > 0 {
		run.result.Remark("With a lease of %s: of %d calls beyond the limit %d failed (for example: %v) and %d were "+
			"never sent.",
			length, o.calls, o.failed, o.err, o.unsent)
	}
	return nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
