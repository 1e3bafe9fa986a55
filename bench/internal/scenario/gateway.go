package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/gateway"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var gatewayScenario = Scenario{
	Name:  "gateway",
	Title: "what a limit for each API key costs a web server",
	Takes: 240 * time.Second,
	Question: `A net/http server in a process of its own, whose handler answers two letters, with a limiter
before it. Clients on connections that are kept make requests, each with an API key that is drawn at
random from 50,000. No key reaches its limit, or (` + "`denied`" + `) all requests have one key, whose one
permit is used up. ` + "`httplimit`" + ` is our middleware over a Family. ` + "`httprate`" + ` is that middleware
with counters in Redis that were written for this: its own Redis store is a module apart, which was
not to be had. ` + "`redis_rate`" + ` and ` + "`ulule`" + ` are called in a handler that was written for this.
` + "`EVALSHA`" + ` is such a handler, too, with a script of three lines that counts, called once for each
request. ` + "`429 without a limiter`" + ` refuses everything with constant fields: what the answer alone
costs. The CPU is that of the server's process, not of those who make the requests. What a limiter
adds is the CPU with it less that of ` + "`no limiter`" + ` in the same round. At half load requests come
at one pace for all. Their latency counts from when they were due.`,
	Run: runGateway,
}

const (
	gatewayRounds = 5
	gatewaySpan   = 3 * time.Second
	gatewayKeys   = 50_000
)

// The limits of a key. An hour is so long that hardly any window ends meanwhile.
var (
	gatewayNever  = rival.Limit{Permits: 1_000_000_000, Per: time.Hour}
	gatewayUsedUp = rival.Limit{Permits: 1, Per: time.Hour}
)

// The variants whose requests are all allowed, and those whose requests are denied or that stand
// beside them.
var (
	gatewayAllowed = []string{gateway.None, gateway.Bare, gateway.HTTPLimit, gateway.HTTPRate, gateway.RedisRate,
		gateway.Ulule}
	gatewayDenied = []string{gateway.None, gateway.Refuse, gateway.HTTPLimit, gateway.HTTPRate, gateway.RedisRate,
		gateway.Ulule}
)

// gatewayRun is one run of the scenario.
type gatewayRun struct {
	env     Env
	server  *server.Server
	result  *report.Result
	found   *findings
	span    time.Duration
	names   []string // of the keys
	conns   []int    // columns; those of half load and of denials follow
	pace    float64  // requests a second at half load
	workers int      // connections at half load
}

// The columns after those of conns.
func (run *gatewayRun) denied() int { return len(run.conns) }
func (run *gatewayRun) half() int   { return len(run.conns) + 1 }

func runGateway(ctx context.Context, env Env, result *report.Result) error {
	run := &gatewayRun{env: env, result: result, found: newFindings(),
		span:  env.span(50*time.Millisecond, gatewaySpan),
		names: keyNames(choose(0, env.Smoke, 100, gatewayKeys)), conns: env.Goroutines}
	if len(run.conns) == 0 {
		run.conns = []int{64, 512}
		if env.Smoke {
			run.conns = []int{8}
		}
	}
	for _, n := range run.conns {
		run.workers = max(run.workers, n)
	}
	result.Software = append(result.Software, report.GoVersions("github.com/go-chi/httprate")[1:]...)
	var err error
	if run.server, err = env.start(ctx, result); err != nil {
		return err
	}
	defer run.server.Close()
	defer run.found.addTo(result)
	if err := run.calibrate(ctx); err != nil {
		return fmt.Errorf("pace: %w", err)
	}
	rounds := env.rounds(gatewayRounds)
	run.describe(rounds)
	for round := range rounds {
		if err := run.round(ctx, round); err != nil {
			return err
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	return nil
}

func (run *gatewayRun) describe(rounds int) {
	run.result.Views = gatewayViews(run.conns)
	setting(run.result, "Aims", "httplimit adds at most 8 µs of CPU to a request that is allowed, and at most "+
		"1 µs to one that is denied from memory; at half load its p99 is at most twice that of EVALSHA")
	setting(run.result, "Keys", "%d, the same draws for all variants of a round; denied: 1", len(run.names))
	setting(run.result, "Limit of a key", "%s permits per %s, never reached; denied: %d per %s",
		report.Count(float64(gatewayNever.Permits)), gatewayNever.Per, gatewayUsedUp.Permits, gatewayUsedUp.Per)
	setting(run.result, "Rounds", "%d of %s for each point, after %s to warm up; variants take turns", rounds,
		run.span, run.span/4)
	setting(run.result, "Half load", "%.0f requests/s at equal distances, on %d connections: half of what EVALSHA "+
		"made in a turn before the rounds", run.pace, run.workers)
}

func gatewayViews(conns []int) []report.View {
	var columns []string
	for _, n := range conns {
		columns = append(columns, fmt.Sprintf("%d connections", n))
	}
	columns = append(columns, fmt.Sprintf("%d, denied", conns[0]), "half load")
	views := []report.View{
		{Metric: "rate", Title: "Requests per second", Unit: "requests/s", Plot: true},
		{Metric: "cpu", Title: "CPU of the web server per request", Unit: "µs", Plot: true},
		{Metric: "extra", Title: "CPU that the limiter adds to a request", Unit: "µs", Plot: true, Keep: true},
		{Metric: "redis-cpu", Title: "CPU of Redis per request", Unit: "µs"},
		{Metric: "calls", Title: "Script calls per request", Unit: "calls"},
		{Metric: "p50", Title: "Median latency", Unit: "µs"},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", Plot: true, LogY: true},
		{Metric: "p99-ratio", Title: "99th percentile of the latency over that of EVALSHA", Unit: "times"},
		{Metric: "failed", Title: "Requests that failed", Unit: "% of all requests"},
	}
	for i := range views {
		views[i].X, views[i].Nominal, views[i].Cases = "load", true, columns
	}
	return views
}

// calibrate finds the pace of half load.
func (run *gatewayRun) calibrate(ctx context.Context) error {
	return run.turn(ctx, gateway.Bare, gatewayNever, func(t *gatewayTurn) error {
		figures, err := t.full(ctx, 0, run.workers)
		if err != nil {
			return err
		}
		run.pace = figures["rate"] / 2
		return nil
	})
}

// round lets every variant have its turns and compares those of the round.
func (run *gatewayRun) round(ctx context.Context, round int) error {
	all := make(gatewayRound)
	for _, i := range rotated(len(gatewayAllowed), round) {
		name := gatewayAllowed[i]
		err := run.turn(ctx, name, gatewayNever, func(t *gatewayTurn) error {
			for column, conns := range run.conns {
				if err := all.note(name, column)(t.full(ctx, uint64(round), conns)); err != nil {
					return err
				}
			}
			return all.note(name, run.half())(t.paced(ctx, uint64(round)))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, i := range rotated(len(gatewayDenied), round) {
		name := gatewayDenied[i]
		err := run.turn(ctx, name, gatewayUsedUp, func(t *gatewayTurn) error {
			return all.note(name, run.denied())(t.full(ctx, uint64(round), run.conns[0]))
		})
		if err != nil {
			return fmt.Errorf("%s, denied: %w", name, err)
		}
	}
	all.compare()
	all.addTo(run.found)
	return nil
}
