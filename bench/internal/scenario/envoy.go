package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit/bench/internal/envoy"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var envoyScenario = Scenario{
	Name:  "envoy",
	Title: "rate limit services for Envoy",
	Takes: 75 * time.Second,
	Question: `Services for Envoy, each in a process of its own, are called through gRPC on a few connections,
as by the worker threads of an Envoy. A call has one descriptor with one entry: always the same, or one
drawn at random from 100,000, each of which has a limit for itself. No limit is reached, or
(` + "`denied`" + `) the one descriptor is over its limit. ` + "`envoylimit`" + ` is our service, with an exact
sliding log. ` + "`envoyproxy/ratelimit`" + ` is built from its module; it counts in fixed windows. With its
local cache, which is off by default, it remembers what is over the limit. Both have Redis for
themselves in turns, and the same configuration. The CPU is that of the service, not of those who call.
At half load calls come at one pace for all, and their latency counts from when they were due.`,
	Run: runEnvoy,
}

const (
	envoyRounds      = 5
	envoySpan        = 3 * time.Second
	envoyCallers     = 64
	envoyConns       = 4
	envoyDescriptors = 100_000
	envoyCache       = 10 << 20 // bytes; what the examples of that project use
	envoyAlone       = "envoyproxy/ratelimit"
	envoyCached      = "envoyproxy/ratelimit, local cache"
)

// envoyConfig has a limit for each value of "user", out of reach, and one for each of "spent".
const envoyConfig = `
domain: ` + envoy.Domain + `
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: spent
    rate_limit: {unit: hour, requests_per_unit: 1}
`

// The columns.
const (
	envoyOne = iota
	envoyMany
	envoyDenied
	envoyHalf
)

// envoyRun is one run of the scenario.
type envoyRun struct {
	env      Env
	server   *server.Server
	result   *report.Result
	found    *findings
	span     time.Duration
	requests []*rls.RateLimitRequest
	spent    *rls.RateLimitRequest
	pace     float64 // calls a second at half load
}

func runEnvoy(ctx context.Context, env Env, result *report.Result) error {
	run := &envoyRun{env: env, result: result, found: newFindings(),
		span:  env.span(100*time.Millisecond, envoySpan),
		spent: envoy.Request("spent", "one")}
	for i := range choose(0, env.Smoke, 100, envoyDescriptors) {
		run.requests = append(run.requests, envoy.Request("user", fmt.Sprint("user-", i)))
	}
	kinds, err := run.kinds(ctx)
	if err != nil {
		return err
	}
	if run.server, err = env.start(ctx, result); err != nil {
		return err
	}
	defer run.server.Close()
	defer func() { run.found.addTo(result) }()
	if err := run.calibrate(ctx, kinds[len(kinds)-1]); err != nil {
		return err
	}
	rounds := env.rounds(envoyRounds)
	run.describe(rounds)
	for round := range rounds {
		for _, i := range rotated(len(kinds), round) {
			if err := run.turn(ctx, kinds[i],
				func(t *envoyTurn) error { return t.columns(ctx, uint64(round)) }); err != nil {
				return fmt.Errorf("%s: %w", kinds[i].Name, err)
			}
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	return nil
}

// kinds are the services that are there. A smoke run has no time to build the other one.
func (run *envoyRun) kinds(ctx context.Context) ([]envoy.Kind, error) {
	kinds := []envoy.Kind{envoy.Ours}
	if run.env.Smoke {
		return kinds, nil
	}
	run.env.Progress("%s %s is built, unless it was before", envoy.Module, envoy.ModuleVersion)
	program, err := envoy.Build(ctx)
	switch {
	case errors.Is(err, envoy.ErrMissing):
		run.result.Remark("%v.", err)
		return kinds, nil
	case err != nil:
		return nil, err
	}
	run.result.Software = append(run.result.Software, report.Pair{Name: envoy.Module, Value: envoy.ModuleVersion})
	return append(kinds, envoy.Theirs(envoyCached, program, envoyCache), envoy.Theirs(envoyAlone, program, 0)), nil
}

func (run *envoyRun) describe(rounds int) {
	columns := []string{"one descriptor", report.Count(float64(len(run.requests))) + " descriptors", "one, denied",
		"half load"}
	run.result.Views = []report.View{
		{Metric: "rate", Title: "Calls per second", Unit: "calls/s", Plot: true, Keep: true},
		{Metric: "cpu", Title: "CPU of the service per call", Unit: "µs", Plot: true},
		{Metric: "redis-cpu", Title: "CPU of Redis per call", Unit: "µs", Plot: true},
		{Metric: "p50", Title: "Median latency", Unit: "µs"},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", Plot: true, LogY: true},
		{Metric: "failed", Title: "Calls that failed", Unit: "% of all calls"},
	}
	for i := range run.result.Views {
		v := &run.result.Views[i]
		v.X, v.Nominal, v.Cases = "load", true, columns
	}
	setting(run.result, "Callers", "%d on %d connections, each as fast as it is answered", envoyCallers, envoyConns)
	setting(run.result, "Rounds", "%d of %s for each point, after %s to warm up; services take turns", rounds, run.span,
		run.span/4)
	setting(run.result, "Half load", "%.0f calls/s at equal distances, for descriptors drawn at random: half of what "+
		"the other service made, or ours if that could not be had", run.pace)
	setting(run.result, "Other service", "defaults, without statistics; local cache: %d MiB", envoyCache>>20)
}

// calibrate finds the pace of half load.
func (run *envoyRun) calibrate(ctx context.Context, k envoy.Kind) error {
	return run.turn(ctx, k, func(t *envoyTurn) error {
		figures, err := t.full(ctx, t.random(0))
		run.pace = max(figures["rate"]/2, 1)
		if errors.Is(err, errIdle) {
			return nil
		}
		return err
	})
}
