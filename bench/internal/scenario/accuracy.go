package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

var accuracy = Scenario{
	Name:  "accuracy",
	Title: "what is admitted, against the limit",
	Takes: 70 * time.Second,
	Question: `Is the limit kept, and is it used? Several clients with connections of their own call
at random (Poisson) at a rate that is a multiple of the limit, alike in "random", by
Zipf's law (1, 1/2, 1/3 ...) in "skewed". All limiters run at the same time and get the
same arrivals. "Most" is the window, wherever it begins, that wholly contains the most
calls that were admitted: more than 100 % is a broken limit, and there is no false alarm.
"Mean" and "least" count in consecutive windows after the first. A Poisson demand of
the limit itself leaves permits unused in some windows and has too few in others, so
"ideal log", computed, is what a single sliding log admits of these arrivals if calls
take no time: no limiter that keeps the limit can do much better. ` + "`round robin`" + ` splits
a limit over keys without spill. Limiters in the process are shared by all clients.
Redisson's arrivals are its own.`,
	Run: runAccuracy,
}

// accuracyLimit divides by 16, for round robin's sake.
var accuracyLimit = rival.Limit{Permits: 480, Per: time.Second}

const (
	accuracyWorkers = 64 // calls under way at once, of one limiter
	idealName       = "ideal log"
)

// accuracyCase is one pattern of calls.
type accuracyCase struct {
	pattern string
	skew    float64 // of Zipf's law
	times   float64 // the limit
}

func accuracyCases(smoke bool) []accuracyCase {
	demands := []float64{1, 1.5, 3}
	if smoke {
		demands = []float64{3}
	}
	var cases []accuracyCase
	for _, times := range demands {
		cases = append(cases, accuracyCase{"random", 0, times}, accuracyCase{"skewed", 1, times})
	}
	return cases
}

// accuracyRun is the limiters that are compared.
type accuracyRun struct {
	crews    []*crew
	redisson *rival.Redisson // or nil
	clients  int
	windows  int
	found    *findings
	result   *report.Result
}

func runAccuracy(ctx context.Context, env Env, result *report.Result) error {
	nodes, run := []int{1, 4, 16}, &accuracyRun{clients: 8, found: newFindings(), result: result}
	if env.Smoke {
		nodes, run.clients = []int{1, 2}, 2
	}
	run.windows = env.windows(accuracyLimit.Per, 1, 8)
	rounds := env.rounds(3)
	for _, pattern := range []string{"random", "skewed"} {
		result.Views = append(result.Views,
			report.View{Metric: "most-" + pattern, Title: "Most permits in any window, " + pattern,
				Unit: "% of the limit", X: "demand, times the limit", Plot: true, Nominal: true, Mark: 100},
			report.View{Metric: "mean-" + pattern, Title: "Mean use per window, " + pattern, Unit: "% of the limit",
				X: "demand, times the limit", Plot: true, Nominal: true, Mark: 100},
			report.View{Metric: "least-" + pattern, Title: "Least use in a window, " + pattern, Unit: "% of the limit",
				X: "demand, times the limit"},
		)
	}
	setting(result, "Limit", "%d permits per %s", accuracyLimit.Permits, accuracyLimit.Per)
	setting(result, "Clients", "%d", run.clients)
	setting(result, "Rounds", "%d of %d windows after the first, for each point", rounds, run.windows)

	servers, err := env.startFarm(ctx, result, nodes[len(nodes)-1])
	if err != nil {
		return err
	}
	defer servers.close()
	if err := run.open(ctx, env, servers, nodes); err != nil {
		return err
	}
	defer run.close()
	cases := accuracyCases(env.Smoke)
	for round := range rounds {
		for i, c := range cases {
			if err := run.measure(ctx, c, fmt.Sprintf("accuracy-%d-%d", round, i),
				uint64(round*len(cases)+i+1)); err != nil {
				return err
			}
			env.Progress("round %d of %d: %s demand of %v times the limit done", round+1, rounds, c.pattern, c.times)
		}
	}
	run.found.addTo(result)
	return nil
}

func (run *accuracyRun) open(ctx context.Context, env Env, servers farm, nodes []int) (err error) {
	rivals := env.Rivals
	if env.Uber {
		rivals = append(rivals[:len(rivals):len(rivals)], rival.Uber)
	}
	if run.crews, err = servers.crews(ctx, rivals, accuracyLimit, run.clients, nodes); err != nil {
		return err
	}
	if run.redisson, err = env.redisson(ctx, run.result, servers[0].Addr(), accuracyLimit, run.clients); err != nil {
		closeCrews(run.crews)
	}
	return err
}

func (run *accuracyRun) close() {
	closeCrews(run.crews)
	if run.redisson != nil {
		run.redisson.Close()
	}
}

// measure lets all limiters meet the same demand at the same time.
func (run *accuracyRun) measure(ctx context.Context, c accuracyCase, name string, seed uint64) error {
	d := demand{
		rate:    c.times * float64(accuracyLimit.Permits) / accuracyLimit.Per.Seconds(),
		weights: load.Zipf(run.clients, c.skew),
		seed:    seed,
		// The first window, and a rest for those that began late.
		span:    time.Duration(run.windows+1)*accuracyLimit.Per + accuracyLimit.Per/10,
		workers: accuracyWorkers,
	}
	outcomes, err := run.offerAll(ctx, d, name)
	if err != nil {
		return err
	}
	for i, crew := range run.crews {
		run.note(c, crew.name, outcomes[i])
	}
	if run.redisson != nil {
		run.note(c, rival.RedissonName, outcomes[len(run.crews)])
	}
	run.note(c, idealName, outcome{admitted: ideal(accuracyLimit.Per, accuracyLimit.Permits, d.instants())})
	return nil
}

// offerAll returns the outcomes in the order of the crews, Redisson's last.
func (run *accuracyRun) offerAll(ctx context.Context, d demand, name string) ([]outcome, error) {
	allows := make([][]rival.Allow, len(run.crews))
	for i, crew := range run.crews {
		var err error
		if allows[i], err = crew.limiters(ctx, name); err != nil {
			return nil, err
		}
	}
	var wg sync.WaitGroup
	outcomes, errs := make([]outcome, len(run.crews)+1), make([]error, len(run.crews)+1)
	for i := range run.crews {
		wg.Go(func() { outcomes[i], errs[i] = offer(ctx, d, allows[i]) })
	}
	if run.redisson != nil {
		outcomes[len(run.crews)], errs[len(run.crews)] = offerRedisson(ctx, d, run.redisson, name)
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

func (run *accuracyRun) note(c accuracyCase, name string, o outcome) {
	v := judge(accuracyLimit.Per, accuracyLimit.Permits, run.windows, o.admitted)
	run.found.add(name, c.times, "most-"+c.pattern, 100*v.most)
	run.found.add(name, c.times, "mean-"+c.pattern, 100*v.mean)
	run.found.add(name, c.times, "least-"+c.pattern, 100*v.least)
	if o.failed > 0 {
		run.result.Remark("%s failed %d of %d calls at %v times the limit, %s; for example: %v.", name, o.failed,
			o.calls, c.times, c.pattern, o.err)
	}
	if o.unsent > 0 && name != rival.Uber.Name { // which keeps its callers waiting by design
		run.result.Remark("%s was not sent %d of %d calls at %v times the limit, %s: too many were under way.", name,
			o.unsent, o.calls, c.times, c.pattern)
	}
}
