package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/stat"
)

var latency = Scenario{
	Name:  "latency",
	Title: "time to a decision at a part of each rival's capacity",
	Takes: 50 * time.Second,
	Question: `An open loop: calls arrive at random (Poisson), whether or not earlier ones have been
answered, at 10, 50 and 80 % of what the rival can do. The capacity is found first, in
each round, as the median of three looks, by the same generator with far more calls due, and up to
` + "`workers`" + ` of
them under way; it is less than in ` + "`exact`" + `, because the generator uses CPU too. A
latency counts from the instant at which the call should have been sent, so a stall
shows in every call that it made late (no coordinated omission). ` + "`x/time/rate`" + ` asks
nobody: its latencies are those of the generator. Compare the rows with care: each is at a part of
its own capacity, which the second
table gives.`,
	Run: runLatency,
}

const (
	latencyWorkers = 512 // calls under way, at most
	latencyLooks   = 3   // at the capacity
	latencyLook    = 6   // a part so small of a span each
	latencyFlood   = 5e6 // calls a second, more than anybody answers
)

var latencyPercentiles = []struct {
	metric string
	at     float64
}{{"p50", 50}, {"p99", 99}, {"p999", 99.9}}

func runLatency(ctx context.Context, env Env, result *report.Result) error {
	loads := []float64{10, 50, 80}
	if env.Smoke {
		loads = []float64{50}
	}
	rounds, span := env.rounds(3), env.span(100*time.Millisecond, 1500*time.Millisecond)
	result.Views = latencyViews()
	setting(result, "Limit", "%d permits per %s, never reached", exactLimit.Permits, exactLimit.Per)
	setting(result, "Rounds", "%d of %s for each point, after %d of %s to find the capacity", rounds, span,
		latencyLooks, span/latencyLook)
	setting(result, "Workers", "%d", latencyWorkers)
	setting(result, "Left out", "%s and %s, which are no functions that answer at once in this process",
		rival.Uber.Name, rival.RedissonName)

	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	handles, err := openAll(ctx, env.Rivals, s)
	defer closeAll(handles)
	if err != nil {
		return err
	}
	for i, h := range handles {
		if err := warmUp(ctx, env.Rivals[i].Name, h); err != nil {
			return fmt.Errorf("%s: %w", env.Rivals[i].Name, err)
		}
	}
	found := newFindings()
	for round := range rounds {
		for _, i := range rotated(len(env.Rivals), round) {
			allow, err := handles[i].Limiter(ctx, fmt.Sprintf("latency-%d", round))
			if err != nil {
				return err
			}
			p := latencyPoint{name: env.Rivals[i].Name, allow: allow, found: found, seed: uint64(round)}
			if err := p.measure(ctx, loads, span, result); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	found.addTo(result)
	return nil
}

func latencyViews() []report.View {
	const x = "% of capacity"
	return []report.View{
		{Metric: "p50", Title: "Median latency", Unit: "µs", X: x, Plot: true, Nominal: true, LogY: true},
		{Metric: "rate", Title: "Calls sent", Unit: "calls/s", X: x},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", X: x, Plot: true, Nominal: true,
			LogY: true, Keep: true,
			Drawn: []string{"shardlimit", "script", "redis_rate", "rueidislimiter", "ulule", "go-zero"}},
		{Metric: "p999", Title: "99.9th percentile of the latency", Unit: "µs", X: x, Plot: true, Nominal: true,
			LogY: true},
		{Metric: "tail", Title: "99th percentile over the median", Unit: "times", X: x},
		{Metric: "lag", Title: "99th percentile of the generator's own delay, included above", Unit: "µs", X: x},
		{Metric: "failed", Title: "Calls that returned an error or were never sent", Unit: "% of all calls", X: x},
	}
}

// latencyPoint is one rival in one round.
type latencyPoint struct {
	name  string
	allow rival.Allow
	found *findings
	seed  uint64
}

func (p latencyPoint) measure(ctx context.Context, loads []float64, span time.Duration, result *report.Result) error {
	capacity, err := p.capacity(ctx, span/latencyLook)
	if err != nil {
		return err
	}
	if capacity == 0 {
		result.Remark("%s made not one decision with %d calls under way: its latency cannot be measured.", p.name,
			latencyWorkers)
		return nil
	}
	p.found.add(p.name, 100, "rate", capacity)
	for i, percent := range loads {
		rate := capacity * percent / 100
		run, err := p.open(ctx, load.Poisson(rate, load.Zipf(1, 0), p.seed*100+uint64(i)), span)
		if err != nil {
			return err
		}
		p.note(percent, run)
	}
	return nil
}

// capacity is how many calls a second are answered if far more are due: the
// median of several looks, as a moment in which somebody else uses the machine
// would make the loads that are derived from it too small, and a lucky one too large.
func (p latencyPoint) capacity(ctx context.Context, look time.Duration) (float64, error) {
	var rates []float64
	for range latencyLooks {
		run, err := p.open(ctx, load.Poisson(latencyFlood, load.Zipf(1, 0), p.seed), look)
		if err != nil {
			return 0, err
		}
		rates = append(rates, float64(run.sample.Sent-run.failed)/run.sample.Elapsed.Seconds())
	}
	return stat.Of(rates...).Median, nil
}

// latencyRun is one span of calls.
type latencyRun struct {
	sample     load.OpenSample
	times, lag *load.Latencies
	failed     int64
}

func (p latencyPoint) open(ctx context.Context, arrivals load.Arrivals, span time.Duration) (latencyRun, error) {
	run := latencyRun{times: load.NewLatencies(), lag: load.NewLatencies()}
	var failed atomic.Int64
	var err error
	run.sample, err = load.Open(ctx, load.OpenPlan{Arrivals: arrivals, For: span, Workers: latencyWorkers},
		func(ctx context.Context, d load.Due) {
			_, err := p.allow(ctx)
			run.times.Add(d.Worker, time.Since(d.At))
			run.lag.Add(d.Worker, d.Lag)
			if err != nil {
				failed.Add(1)
			}
		})
	run.failed = failed.Load()
	return run, err
}

func (p latencyPoint) note(percent float64, run latencyRun) {
	var at []float64
	for _, q := range latencyPercentiles {
		at = append(at, q.at)
	}
	times := run.times.Percentiles(at...)
	for i, q := range latencyPercentiles {
		p.found.add(p.name, percent, q.metric, micros(times[i]))
	}
	p.found.add(p.name, percent, "tail", float64(times[1])/float64(max(times[0], 1)))
	p.found.add(p.name, percent, "lag", micros(run.lag.Percentiles(99)[0]))
	p.found.add(p.name, percent, "rate", float64(run.sample.Sent)/run.sample.Elapsed.Seconds())
	if lost := run.failed + run.sample.Unsent; lost > 0 {
		p.found.add(p.name, percent, "failed", 100*float64(lost)/float64(run.sample.Sent+run.sample.Unsent))
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
