package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var gateway = Scenario{
	Name:  "gateway",
	Title: "an HTTP server with a limit for each API key",
	Takes: 60 * time.Second,
	Question: `A net/http server on loopback answers requests with an API key out of 10,000, drawn at
random. Each key has a limit that is never reached, and was called once before. ` + "`none`" + ` limits nothing, and ` +
		"`EVALSHA`" + ` runs a
script that counts, once for each request, through rueidis: what a limit costs at least that asks
Redis by itself. ` + "`httplimit`" + ` is our middleware over a Family, ` + "`httprate`" + ` its own middleware with
counters in Redis that were written for this, the others are called in a handler. In ` + "`denied`" + ` one
key has used up its limit, as the process knows. CPU is that of the process with server and clients,
and what a limiter costs is that less what ` + "`none`" + ` costs in the same round. The latency is that of an
open loop at half of what ` + "`EVALSHA`" + ` did in the round, the same for all.`,
	Run: runGateway,
}

const (
	gatewayRounds = 5
	gatewaySpan   = 2 * time.Second
	gatewayConns  = 64
	gatewayKeys   = 10_000
	gatewayBase   = "EVALSHA"
)

var (
	gatewayNever  = rival.Limit{Permits: 1_000_000, Per: time.Hour}
	gatewayUsedUp = rival.Limit{Permits: 1, Per: time.Hour}
)

// gatewayRun is one run of the scenario.
type gatewayRun struct {
	env    Env
	server *server.Server
	doors  []door
	result *report.Result
	found  *findings
	span   time.Duration
	keys   []string
}

func runGateway(ctx context.Context, env Env, result *report.Result) error {
	run := &gatewayRun{env: env, result: result, found: newFindings(),
		span: env.span(100*time.Millisecond, gatewaySpan),
		keys: keyNames(choose(0, env.Smoke, 200, gatewayKeys))}
	var err error
	if run.server, err = env.start(ctx, result); err != nil {
		return err
	}
	defer run.server.Close()
	for _, d := range doors() {
		if d.rival == "" || env.Has(d.rival) {
			run.doors = append(run.doors, d)
		}
	}
	result.Software = append(result.Software, report.GoVersions("github.com/go-chi/httprate")...)
	result.Views = gatewayViews()
	rounds := env.rounds(gatewayRounds)
	setting(result, "Limit of a key", "%s permits per %s, never reached; denied: %d per %s",
		report.Count(float64(gatewayNever.Permits)), gatewayNever.Per, gatewayUsedUp.Permits, gatewayUsedUp.Per)
	setting(result, "Connections", "%d, kept alive, each with one request at a time", gatewayConns)
	setting(result, "Rounds", "%d of %s under load, after %s to warm up, and of %s at half load", rounds, run.span,
		run.span/4, run.span)
	for round := range rounds {
		if err := run.round(ctx, round); err != nil {
			run.found.addTo(result)
			return err
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	run.found.addTo(result)
	return nil
}

func gatewayViews() []report.View {
	views := []report.View{
		{Metric: "rate", Title: "Requests per second under load", Unit: "requests/s", Plot: true},
		{Metric: "cpu", Title: "CPU per request under load", Unit: "us"},
		{Metric: "extra", Title: "CPU per request that the limiter costs", Unit: "us", Plot: true},
		{Metric: "server-cpu", Title: "CPU of Redis per request", Unit: "us"},
		{Metric: "p50", Title: "Median latency at half load", Unit: "us"},
		{Metric: "p99", Title: "99th percentile of the latency at half load", Unit: "us", Plot: true},
		{Metric: "tail", Title: "99th percentile over that of EVALSHA", Unit: "times"},
		{Metric: "failed", Title: "Requests that failed or were not sent", Unit: "% of all requests"},
	}
	for i := range views {
		views[i].X, views[i].Nominal, views[i].Cases = "requests", true, []string{"allowed", "denied"}
	}
	return views
}

// round lets every door have its turn: under load, and then at half of what the script did.
func (run *gatewayRun) round(ctx context.Context, round int) error {
	under := make(map[string]*gatewayLoad)
	for _, i := range rotated(len(run.doors), round) {
		d := run.doors[i]
		t := &gatewayTurn{gatewayRun: run, door: d, seed: uint64(round)}
		l, err := t.underLoad(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		under[d.name] = l
	}
	tails := make(map[string]float64)
	for _, i := range rotated(len(run.doors), round) {
		d := run.doors[i]
		if d.denied {
			continue
		}
		t := &gatewayTurn{gatewayRun: run, door: d, seed: uint64(round)}
		p99, err := t.atPace(ctx, under[gatewayBase].rate/2)
		if err != nil {
			return fmt.Errorf("%s at half load: %w", d.name, err)
		}
		tails[d.name] = p99
	}
	for _, d := range run.doors {
		l := under[d.name]
		if none := under["none"]; d.name != none.name {
			run.found.add(d.label(), d.column(), "extra", l.cpu-none.cpu)
		}
		if base := tails[gatewayBase]; base > 0 && !d.denied {
			run.found.add(d.label(), d.column(), "tail", tails[d.name]/base)
		}
	}
	return nil
}
