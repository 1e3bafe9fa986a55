package scenario

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var failover = Scenario{
	Name:  "failover",
	Title: "what Limit.Failover costs a call",
	Takes: 40 * time.Second,
	Question: `One process, three servers, limits that are never reached, with and without
` + "`Failover`" + ` in turns. A limit with ` + "`Failover`" + ` has each call carry a time after which it
must not act, and a membership is read in the background. Cases: ` + "`exact`" + `, one limit from 64
and 1,024 goroutines; ` + "`lone`" + `, the same limit from one; ` + "`keys`" + `, 10,000 keys of a
family in turn, from 64. The last table is with over without, of the medians of one round.`,
	Run: runFailover,
}

// fencedCase is a way of calling.
type fencedCase struct {
	name       string
	goroutines int
	keys       int // 0: a limit
}

var fencedCases = []fencedCase{{"exact", 64, 0}, {"exact", 1024, 0}, {"lone", 1, 0}, {"keys", 64, 10_000}}

func (c fencedCase) String() string { return fmt.Sprintf("%s, %d goroutines", c.name, c.goroutines) }

func runFailover(ctx context.Context, env Env, result *report.Result) error {
	rounds, span := env.rounds(7), env.span(100*time.Millisecond, 2*time.Second)
	const x = "with failover"
	result.Views = []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: x},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs", X: x},
		{Metric: "rate-ratio", Title: "Decisions per second, with over without", Unit: "times", X: x},
		{Metric: "cpu-ratio", Title: "Client CPU, with over without", Unit: "times", X: x},
	}
	setting(result, "Limit", "%d permits per %s, never reached, 3 shards", exactLimit.Permits, exactLimit.Per)
	setting(result, "Rounds", "%d of %s for each point, after %s to warm up", rounds, span, span/4)
	servers, err := env.startFarm(ctx, result, 3)
	if err != nil {
		return err
	}
	defer servers.close()
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.nodes(), CallTimeout: time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	found := newFindings()
	for round := range rounds {
		for _, c := range fencedCases {
			var samples [2]load.Sample // without, with
			for _, with := range rotated(2, round) {
				if samples[with], err = c.run(ctx, client, with == 1, span); err != nil {
					return fmt.Errorf("%s: %w", c, err)
				}
				found.add(c.String(), float64(with), "rate", samples[with].PerSecond())
				found.add(c.String(), float64(with), "cpu", samples[with].CPUMicros())
			}
			found.add(c.String(), 1, "rate-ratio", samples[1].PerSecond()/samples[0].PerSecond())
			found.add(c.String(), 1, "cpu-ratio", samples[1].CPUMicros()/samples[0].CPUMicros())
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	found.addTo(result)
	return nil
}

// nodes are the servers as a Config has them.
func (f farm) nodes() (nodes []shardlimit.Node) {
	for i, s := range f {
		nodes = append(nodes, shardlimit.Node{Name: "node-" + strconv.Itoa(i), Redis: server.Option(s.Addr())})
	}
	return nodes
}

// run calls for a while. What is called is declared anew each time, and settled before it counts.
func (c fencedCase) run(ctx context.Context, client *shardlimit.Client, with bool,
	span time.Duration) (load.Sample, error) {
	limit := shardlimit.Limit{Permits: exactLimit.Permits, Per: exactLimit.Per, Shards: 3, Failover: with}
	name := fmt.Sprintf("%s-%d-%t", c.name, c.goroutines, with)
	plan := load.Plan{Goroutines: c.goroutines, Warm: span / 4, For: span}
	var sample load.Sample
	var err error
	if c.keys == 0 {
		var l *shardlimit.Limiter
		if l, err = client.Limiter(ctx, name, limit); err != nil {
			return sample, err
		}
		sample, err = load.Run(ctx, plan, func(ctx context.Context) (bool, error) { return answered(l.Allow(ctx)) })
	} else {
		limit.Shards = 0
		var f *shardlimit.Family
		if f, err = client.Family(ctx, name, limit); err != nil {
			return sample, err
		}
		var next atomic.Int64
		each := func(ctx context.Context) (bool, error) {
			key := strconv.FormatInt(next.Add(1)%int64(c.keys), 10)
			return answered(f.Limiter(key).Allow(ctx))
		}
		for next.Load() < int64(c.keys) { // none is new when it counts
			plan := load.Plan{Goroutines: c.goroutines, For: span / 10}
			if sample, err = load.Run(ctx, plan, each); err != nil {
				return sample, err
			}
		}
		sample, err = load.Run(ctx, plan, each)
	}
	if err == nil && sample.Failed > 0 {
		err = fmt.Errorf("%d calls failed, such as: %w", sample.Failed, sample.Err)
	}
	return sample, err
}

func answered(d shardlimit.Decision, err error) (bool, error) { return d.Allowed, err }
