package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/internal/history"
)

var overload = Scenario{
	Name:  "overload",
	Title: "what a demand far beyond the limit costs, and whom",
	Takes: 160 * time.Second,
	Question: `Several clients call evenly, in turn, at 1, 10 and 100 times the limit, one after the
other, whatever is answered. Goodput is what was admitted, per window after a first one
that fills the log, over the limit.
Script calls (EVAL and EVALSHA by INFO commandstats) and server CPU are those of all
servers together, for each permit that was granted: what a denial costs the server shows
in how they grow with the demand. The cost of a denial for the client is measured apart:
a limit that has nothing free for an hour, asked in a loop by one goroutine and by many;
its CPU is that of the whole process, user and system, allocations are those of the
whole process too. A denial that is already known to the process needs no call at all.
` + "`throttled`" + ` denies without a script call: it reads the key with GET. Redisson's client
is the JVM, of which no allocations are known.`,
	Run: runOverload,
}

var (
	// overloadLimit is small enough for a hundred times of it to be possible
	// with one script call a decision.
	overloadLimit = rival.Limit{Permits: 200, Per: time.Second}
	// emptyLimit is used up at once and stays so. Round robin has a permit a key.
	emptyLimit = rival.Limit{Permits: 16, Per: time.Hour}
)

const (
	overloadClients = 4
	overloadWorkers = 1024 // calls under way at once
)

// overloadRun is one run of the scenario.
type overloadRun struct {
	servers  farm
	fill     time.Duration // until the log is full
	span     time.Duration // of each demand after that
	denials  time.Duration
	redisson *rival.Redisson // or nil
	found    *findings
	result   *report.Result
}

func runOverload(ctx context.Context, env Env, result *report.Result) error {
	run := &overloadRun{found: newFindings(), result: result}
	demands, nodes := []float64{1, 10, 100}, []int{1, 4}
	if env.Smoke {
		demands, nodes = []float64{10}, []int{1}
	}
	run.fill = overloadLimit.Per + overloadLimit.Per/10
	run.span = time.Duration(env.windows(overloadLimit.Per, 1, 1)) * overloadLimit.Per
	if env.Smoke { // the permits of the first window, which come as soon as they are asked for
		run.fill, run.span = 0, overloadLimit.Per/5
	}
	run.denials = env.span(100*time.Millisecond, 500*time.Millisecond)
	rounds := env.rounds(3)
	result.Views = []report.View{
		{Metric: "goodput", Title: "Goodput", Unit: "% of the limit", X: "demand, times the limit", Plot: true,
			Nominal: true, Mark: 100},
		{Metric: "calls", Title: "Script calls per granted permit", Unit: "calls", X: "demand, times the limit",
			Plot: true, Nominal: true, LogY: true, Keep: true,
			Drawn: []string{"shardlimit, 1 node", "shardlimit, 4 nodes",
				"script", "redis_rate", "rueidislimiter", "ulule", "Redisson"}},
		{Metric: "server-cpu", Title: "Server CPU per granted permit", Unit: "µs", X: "demand, times the limit",
			Plot: true, LogX: true, LogY: true},
		{Metric: "denial", Title: "Client CPU of a denial", Unit: "ns", X: "goroutines", Plot: true, Nominal: true,
			LogY: true},
		{Metric: "denials", Title: "Denials per second", Unit: "denials/s", X: "goroutines"},
		{Metric: "allocs", Title: "Allocations of a denial", Unit: "allocations", X: "goroutines"},
	}
	setting(result, "Limit", "%d permits per %s; for the cost of a denial one that is used up", overloadLimit.Permits,
		overloadLimit.Per)
	setting(result, "Clients", "%d", overloadClients)
	setting(result, "Rounds", "%d of %s, and of %s of denials, for each point", rounds, run.span, run.denials)

	var err error
	if run.servers, err = env.startFarm(ctx, result, nodes[len(nodes)-1]); err != nil {
		return err
	}
	defer run.servers.close()
	run.redisson, err = env.redisson(ctx, result, run.servers[0].Addr(), overloadLimit, overloadClients)
	if err != nil {
		return err
	}
	if run.redisson != nil {
		defer run.redisson.Close()
	}
	if err := run.demands(ctx, env, demands, nodes, rounds); err != nil {
		return err
	}
	if err := run.costs(ctx, env, rounds); err != nil {
		return err
	}
	run.found.addTo(result)
	return nil
}

// demands measures what is admitted and what it costs the servers.
func (run *overloadRun) demands(ctx context.Context, env Env, demands []float64, nodes []int, rounds int) error {
	crews, err := run.servers.crews(ctx, env.networked(), overloadLimit, overloadClients, nodes)
	if err != nil {
		return err
	}
	defer closeCrews(crews)
	for round := range rounds {
		name := fmt.Sprintf("overload-%d", round)
		for _, j := range rotated(len(crews), round) {
			allows, err := crews[j].limiters(ctx, name)
			if err != nil {
				return err
			}
			if err := run.ladder(ctx, crews[j].name, demands,
				func(d demand) (outcome, error) { return offer(ctx, d, allows) }); err != nil {
				return err
			}
		}
		if run.redisson != nil {
			if err := run.ladder(ctx, rival.RedissonName, demands, func(d demand) (outcome, error) {
				return offerRedisson(ctx, d, run.redisson, name)
			}); err != nil {
				return err
			}
		}
		env.Progress("round %d of %d: demands done", round+1, rounds)
	}
	return nil
}

// ladder offers one demand after the other to one limiter.
func (run *overloadRun) ladder(ctx context.Context, name string, demands []float64,
	make func(demand) (outcome, error)) error {
	if run.fill > 0 {
		if _, err := make(run.of(1, run.fill)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, times := range demands {
		before, err := run.servers.usage(ctx)
		if err != nil {
			return err
		}
		o, err := make(run.of(times, run.span))
		if err != nil {
			return fmt.Errorf("%s at %v times the limit: %w", name, times, err)
		}
		after, err := run.servers.usage(ctx)
		if err != nil {
			return err
		}
		run.note(name, times, o, after.Since(before))
	}
	return nil
}

// of is a demand of so many times the limit.
func (run *overloadRun) of(times float64, span time.Duration) demand {
	return demand{
		rate:    times * float64(overloadLimit.Permits) / overloadLimit.Per.Seconds(),
		weights: load.Zipf(overloadClients, 0),
		span:    span,
		workers: overloadWorkers,
	}
}

func (run *overloadRun) note(name string, times float64, o outcome, used server.Usage) {
	granted := float64(history.Total(o.admitted))
	if granted > 0 {
		run.found.add(name, times, "calls", float64(used.Scripts)/granted)
		run.found.add(name, times, "server-cpu", used.CPU*1e6/granted)
	}
	// a part of the first one holds all of its permits
	windows := max(1, run.span.Seconds()/overloadLimit.Per.Seconds())
	run.found.add(name, times, "goodput", 100*granted/windows/float64(overloadLimit.Permits))
	if o.failed+o.unsent > 0 {
		run.result.Remark("%s at %v times the limit: of %d calls %d failed (for example: %v) and %d were never sent.",
			name, times, o.calls, o.failed, o.err, o.unsent)
	}
}

// costs measures what denials cost the client.
func (run *overloadRun) costs(ctx context.Context, env Env, rounds int) error {
	goroutines := []int{1, 64}
	if len(env.Goroutines) > 0 {
		goroutines = env.Goroutines
	}
	handles, err := openEmpty(ctx, env.Rivals, run.servers[0])
	defer closeAll(handles)
	if err != nil {
		return err
	}
	for round := range rounds {
		for _, g := range goroutines {
			for _, i := range rotated(len(handles), round) {
				if err := run.cost(ctx, env.Rivals[i].Name, handles[i], g); err != nil {
					return fmt.Errorf("denials by %s: %w", env.Rivals[i].Name, err)
				}
			}
			if run.redisson != nil {
				if err := run.costRedisson(ctx, run.redisson.Sized(emptyLimit), g); err != nil {
					return err
				}
			}
		}
		env.Progress("round %d of %d: cost of a denial done", round+1, rounds)
	}
	return nil
}

func openEmpty(ctx context.Context, rivals []rival.Rival, s *server.Server) ([]rival.Handle, error) {
	var handles []rival.Handle
	for _, r := range rivals {
		h, err := r.Open(ctx, s.Addr(), emptyLimit)
		if err != nil {
			return handles, fmt.Errorf("open %s: %w", r.Name, err)
		}
		handles = append(handles, h)
	}
	return handles, nil
}

// cost measures one limiter's denials.
func (run *overloadRun) cost(ctx context.Context, name string, h rival.Handle, goroutines int) error {
	allow, err := h.Limiter(ctx, "overload-empty")
	if err != nil {
		return err
	}
	for n := int64(0); ; n++ { // until it is used up; the next rounds find it so
		ok, err := allow(ctx)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if n > 2*emptyLimit.Permits {
			return fmt.Errorf("%d calls have not used up %d permits", n, emptyLimit.Permits)
		}
	}
	sample, allocs, err := loadCounted(ctx, load.Plan{Goroutines: goroutines, Warm: run.denials / 10, For: run.denials},
		allow)
	if err != nil {
		return err
	}
	if sample.Denied == 0 {
		return fmt.Errorf("%d calls allowed, %d failed and none denied: %w", sample.Allowed, sample.Failed, sample.Err)
	}
	x := float64(goroutines)
	run.found.add(name, x, "denial", 1e3*sample.CPUMicros())
	run.found.add(name, x, "denials", sample.PerSecond())
	run.found.add(name, x, "allocs", allocs)
	return nil
}

func (run *overloadRun) costRedisson(ctx context.Context, r *rival.Redisson, goroutines int) error {
	l, err := r.Load(ctx, "overload-empty", goroutines, jvmWarm, run.denials)
	if err != nil {
		return err
	}
	if l.Denied == 0 {
		run.result.Remark("%s denied nothing in %s with %d threads; %d calls failed.", rival.RedissonName, run.denials,
			goroutines, l.Failed)
		return nil
	}
	run.found.add(rival.RedissonName, float64(goroutines), "denial", float64(l.CPU)/float64(l.Decisions()))
	run.found.add(rival.RedissonName, float64(goroutines), "denials", float64(l.Decisions())/l.Elapsed.Seconds())
	return nil
}

// loadCounted also returns this process's allocations per answered call.
func loadCounted(ctx context.Context, plan load.Plan, allow rival.Allow) (load.Sample, float64, error) {
	var before, after runtime.MemStats
	plan.Before = func() error { runtime.ReadMemStats(&before); return nil }
	plan.After = func() error { runtime.ReadMemStats(&after); return nil }
	sample, err := load.RunTight(ctx, plan, allow)
	if err != nil {
		return sample, 0, err
	}
	return sample, float64(after.Mallocs-before.Mallocs) / float64(max(sample.Decisions(), 1)), nil
}
