package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var waiting = Scenario{
	Name:  "waiting",
	Title: "callers that wait for their permits",
	Takes: 50 * time.Second,
	Question: `Callers wait for a permit, and then for the next one, so that as many wait as there are
callers. "one process": 1,000 callers of one participant. "many": 100 participants with 10
callers each, in five processes. "large": 20 participants with 10 callers each, and one more
caller that wants half of what a window has at once, and two windows later again, each time for another
of 20 participants: one that comes again must first pay for what it had. Reported are script calls
for each permit granted, the use of the limit, and how long a single caller and the
large one wait, in windows. Permits that were taken at once come back at once, so the use is
known only to what one window has: of 6 windows, to a sixth.`,
	Run: runWaiting,
}

// waitingCrowd is who waits.
type waitingCrowd struct {
	name                             string
	processes, participants, callers int
	large                            bool
}

// waitingSize is how much is measured.
type waitingSize struct {
	permits int64
	window  time.Duration
	windows int // that count, after as many as there are in lead
	lead    int
	shards  []int
	crowds  []waitingCrowd
}

func waitingSizes(env Env) waitingSize {
	if env.Smoke {
		return waitingSize{
			permits: 200, window: 200 * time.Millisecond, windows: 3, lead: 1, shards: []int{2},
			crowds: []waitingCrowd{{"one process", 1, 1, 100, false}, {"large", 2, 2, 10, true}},
		}
	}
	return waitingSize{
		permits: 2000, window: time.Second, windows: env.windows(time.Second, 6, 12), lead: 2, shards: []int{1, 8},
		crowds: []waitingCrowd{{"one process", 1, 1, 1000, false}, {"many", 5, 100, 10, false},
			{"large", 5, 20, 10, true}},
	}
}

func runWaiting(ctx context.Context, env Env, result *report.Result) error {
	size := waitingSizes(env)
	var cases []string
	for _, c := range size.crowds {
		cases = append(cases, c.name)
	}
	for _, v := range []struct{ metric, title, unit string }{
		{"calls", "Script calls per granted permit", "calls"},
		{"used", "Use of the limit", "% of the limit"},
		{"p50", "Median wait of a single permit", "windows"},
		{"p99", "99th percentile of the wait of a single permit", "windows"},
		{"large", "Wait for half of a window's permits at once: median and longest", "windows"},
	} {
		result.Views = append(result.Views,
			report.View{Metric: v.metric, Title: v.title, Unit: v.unit, X: "who waits", Nominal: true, Cases: cases})
	}
	rounds := env.rounds(1)
	setting(result, "Limit", "%d permits per %s", size.permits, size.window)
	setting(result, "Rounds", "%d of %d windows, after %d to warm up", rounds, size.windows, size.lead)

	servers, err := env.startFarm(ctx, result, min(slices.Max(size.shards), fairnessServers))
	if err != nil {
		return err
	}
	defer servers.close()
	found := newFindings()
	for round := range rounds {
		for x, c := range size.crowds {
			for _, shards := range size.shards {
				run := waitingRun{size: size, crowd: c, shards: shards, servers: servers[:min(shards, len(servers))],
					found: found, result: result}
				if err := run.measure(ctx, float64(x), fmt.Sprintf("waiting-%d-%d-%d", round, x, shards)); err != nil {
					return fmt.Errorf("%s, %d shards: %w", c.name, shards, err)
				}
			}
			env.Progress("round %d of %d: %s done", round+1, rounds, c.name)
		}
	}
	found.addTo(result)
	return nil
}

// waitingRun is one crowd at one number of shards.
type waitingRun struct {
	size    waitingSize
	crowd   waitingCrowd
	shards  int
	servers farm
	found   *findings
	result  *report.Result
}

func (run waitingRun) measure(ctx context.Context, x float64, limit string) error {
	workers, err := fleet.Start(run.crowd.processes)
	if err != nil {
		return err
	}
	defer workers.Close()
	job := fleet.Job{
		Kind: fleet.Waiting, Addrs: run.servers.addrs(len(run.servers)), Limit: limit,
		Permits: run.size.permits, Per: run.size.window, Shards: run.shards, Callers: run.crowd.callers,
		Life: scaleLife,
	}
	if run.crowd.large {
		job.Large = run.size.permits / 2
	}
	for i := range run.crowd.participants {
		job.Participants = append(job.Participants, participant(i))
	}
	var before, after server.Usage
	r, err := workers.Measure(ctx, job, time.Duration(run.size.lead)*run.size.window,
		time.Duration(run.size.windows)*run.size.window,
		func() (err error) { before, err = run.servers.usage(ctx); return err },
		func() (err error) { after, err = run.servers.usage(ctx); return err })
	if err != nil {
		return err
	}
	run.note(x, job, r, after.Since(before))
	return nil
}

func (run waitingRun) note(x float64, job fleet.Job, r fleet.Report, used server.Usage) {
	name := fmt.Sprintf("%d shards", run.shards)
	if run.shards == 1 {
		name = "1 shard"
	}
	windows := func(d time.Duration) float64 { return d.Seconds() / run.size.window.Seconds() }
	granted := float64(r.Allowed + job.Large*int64(len(r.Large)))
	run.found.add(name, x, "calls", float64(used.Scripts)/max(granted, 1))
	run.found.add(name, x, "used", 100*granted/float64(run.size.permits)/windows(r.Elapsed))
	point := scalePoint{report: r}
	run.found.add(name, x, "p50", point.latency(0.5)/1e3/run.size.window.Seconds())
	run.found.add(name, x, "p99", point.latency(0.99)/1e3/run.size.window.Seconds())
	if job.Large > 0 {
		if len(r.Large) == 0 {
			run.result.Remark("%s, %s: the large request was not served once in %s.", run.crowd.name, name,
				r.Elapsed.Round(time.Millisecond))
		} else {
			slices.Sort(r.Large)
			run.found.add(name+", median", x, "large", windows(r.Large[len(r.Large)/2]))
			run.found.add(name+", longest", x, "large", windows(r.Large[len(r.Large)-1]))
		}
	}
	if r.Failed > 0 {
		run.result.Remark("%s, %s: %d calls failed, for example: %s.", run.crowd.name, name, r.Failed, r.Err)
	}
}
