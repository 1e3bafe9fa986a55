package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/parts"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/internal/history"
)

var fairness = Scenario{
	Name:  "fairness",
	Title: "who gets how much of a limit that is too small for all",
	Question: `Fifty participants in five processes share one limit. Each calls at random (Poisson), or at equal distances
if it is called steady, at a rate of its own, whatever it is answered; only workers wait for their permits. What a
participant is entitled to is its weighted max-min share of what all of them really asked for, in blocks of two
windows; x is what it got over that. The populations are described in population.go.

Callers that work want what they ask for, and one more permit for each mean time of work that they spend waiting: that
a permit takes a moment to come is counted against the limiter. Who waits may be granted a permit at any time between
call and answer; only those of which both lie in a window are sure to be of that window.

"perfect division" is no limiter, but a yardstick for x. It knows beforehand what each window will bring, and divides
its permits, in fractions, by weighted max-min; nothing is carried over to the next.

"shardlimit" is called once for each permit. "script" is our own script without a word about who asks, so that permits
go to who comes first; it is asked for all the permits that a participant wants within 10 ms at once, and meets the
smallest limit only. Those with one shard have a server each, and run at the
same time; eight shards are spread over four servers.`,
	X:   "participants",
	Run: runFairness,
}

const (
	fairnessBins   = 20 // in a window
	fairnessLead   = 2  // windows before anything counts
	fairnessStep   = 2  // windows that count before something changes
	fairnessCourse = fairnessBins / 2
	fairnessStill  = 10 // a window divided by this is how long the generator may come late
	// perfectDivision is the series of parts.Record.Perfect.
	perfectDivision = "perfect division"
)

// sharer is a way to share a limit.
type sharer struct {
	name    string
	kind    fleet.Kind
	shards  int
	nodes   int
	servers server.Farm
	crowd   *fleet.Fleet
}

// share is what one sharer did.
type share struct {
	crowd    fleet.Crowd
	gathered fleet.Gathering
	used     server.Usage
	err      error
}

// fairnessRun is one run of the scenario.
type fairnessRun struct {
	*Sheet
	participants, processes int
	window                  time.Duration
	windows                 int // that count
	tries                   int
	limits                  []int64
	populations             []population
	sharers                 []*sharer
}

func runFairness(ctx context.Context, s *Sheet) error {
	run := &fairnessRun{Sheet: s, participants: 50, processes: 5, window: time.Second, tries: 3,
		windows: min(max(4, s.windows(20)), 10), limits: []int64{2000, 20_000}, populations: populations()}
	if s.Smoke {
		run.participants, run.processes, run.window, run.tries = 6, 2, 200*time.Millisecond, 1
		run.windows, run.limits = 4, run.limits[:1]
		run.populations = slices.DeleteFunc(run.populations, func(p population) bool {
			return !slices.Contains([]string{hog, "leavers", "weights, steady", batch}, p.name)
		})
	}
	var names []string
	for _, p := range run.populations {
		names = append(names, p.name)
	}
	if len(s.Cases) > 0 {
		run.populations = slices.DeleteFunc(run.populations,
			func(p population) bool { return !slices.Contains(s.Cases, p.name) })
	}
	if len(run.populations) == 0 {
		return fmt.Errorf("none of the cases %q; there are %s", s.Cases, strings.Join(names, "; "))
	}
	run.describe()
	defer run.close()
	if err := run.open(ctx); err != nil {
		return err
	}
	return run.measureAll(ctx)
}

func (run *fairnessRun) describe() {
	var cases []string
	for _, p := range run.populations {
		cases = append(cases, p.name)
	}
	for _, m := range []struct{ metric, title, unit string }{
		{"jain", "Jain's index of admitted over entitlement", "index"},
		{"least", "Least x of a participant", "admitted over entitlement"},
		{"highest", "Highest x of a participant", "admitted over entitlement"},
		{"used", "Use of the limit", "% of what could be used"},
		{"most", "Most permits in any window", "% of the limit"},
		{"calls", "Script calls per granted permit", "calls"},
		{"settled", "Convergence after a change", "windows"},
		{"servers", "CPU of the servers", "% of a core"},
	} {
		for _, limit := range run.limits {
			run.Result.Views = append(run.Result.Views, report.View{Metric: fairnessMetric(m.metric, limit),
				X:     "participants",
				Title: fmt.Sprintf("%s, %s/s", m.title, report.Count(float64(limit))), Unit: m.unit})
		}
	}
	run.cases(cases...)
	run.setting("Limit", "%v permits a second, window %s", run.limits, run.window)
	run.setting("Clients", "%d participants, %d processes; calls that are due within 10ms are made together",
		run.participants, run.processes)
	run.setting("Rounds", "1 of %d windows, after %d to warm up; changes come after %d; up to %d times if the machine "+
		"stood still for more than 1/%d of a window: the least disturbed counts", run.windows, fairnessLead,
		fairnessStep,
		run.tries, fairnessStill)
}

func fairnessMetric(name string, limit int64) string { return fmt.Sprintf("%s-%d", name, limit) }

// open starts servers and processes for each sharer.
func (run *fairnessRun) open(ctx context.Context) (err error) {
	for _, s := range []*sharer{
		{name: "shardlimit, 1 shard", kind: fleet.Coalesced, shards: 1, nodes: 1},
		{name: "shardlimit, 8 shards", kind: fleet.Coalesced, shards: 8, nodes: 4},
		{name: "script", kind: fleet.FirstCome, shards: 1, nodes: 1},
	} {
		if !slices.ContainsFunc(run.Rivals, func(r rival.Rival) bool { return strings.HasPrefix(s.name, r.Name) }) {
			continue
		}
		if s.servers, err = run.start(ctx, s.nodes); err != nil {
			return err
		}
		run.sharers = append(run.sharers, s)
		if s.crowd, err = fleet.Start(run.processes); err != nil {
			return err
		}
	}
	return nil
}

func (run *fairnessRun) close() {
	for _, s := range run.sharers {
		if s.crowd != nil {
			s.crowd.Close()
		}
		s.servers.Close()
	}
}

// measureAll goes on after an error: what one population has shown must not be lost with another.
func (run *fairnessRun) measureAll(ctx context.Context) error {
	var failed []error
	for at, p := range run.populations {
		for _, limit := range run.limits {
			for _, together := range run.groups(p, limit) {
				if err := run.measure(ctx, p, at, limit, together); err != nil {
					failed = append(failed, fmt.Errorf("%s, %d permits a second: %w", p.name, limit, err))
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
		run.Progress("%s done, %d of %d", p.name, at+1, len(run.populations))
	}
	return errors.Join(failed...)
}

// groups are the sharers that are measured at the same time: more load than that would disturb what
// is measured. First come, first served meets the smallest limit only, as what it does to a fleet
// does not depend on the size of the limit. By itself it meets workers: whoever waits for it asks
// again and again. It does not meet those with weights, of which it knows nothing.
func (run *fairnessRun) groups(p population, limit int64) [][]*sharer {
	var single, sharded, asked []*sharer
	smallest := limit == run.limits[0]
	for _, s := range run.sharers {
		switch {
		case s.shards > 1:
			sharded = append(sharded, s)
		case s.kind == fleet.Coalesced || smallest && !p.waits:
			single = append(single, s)
		case smallest && p.name == batch:
			asked = append(asked, s)
		}
	}
	return slices.DeleteFunc([][]*sharer{single, sharded, asked}, func(g []*sharer) bool { return len(g) == 0 })
}

// measure has sharers play at the same time, and again what a machine that stood still has
// disturbed. The attempt that it disturbed least counts.
func (run *fairnessRun) measure(ctx context.Context, p population, at int, limit int64, together []*sharer) error {
	var best []share
	least := time.Duration(math.MaxInt64)
	for number := range run.tries {
		all, still := make([]share, len(together)), time.Duration(0)
		var wg sync.WaitGroup
		for i, s := range together {
			wg.Go(func() { all[i] = run.play(ctx, p, limit, s, number) })
		}
		wg.Wait()
		failed := false
		for _, share := range all {
			still, failed = max(still, share.gathered.Lag), failed || share.err != nil
		}
		if still < least || failed {
			best, least = all, still
		}
		if still <= run.window/fairnessStill || failed {
			break
		}
	}
	var errs []error
	for i, s := range together {
		if errs = append(errs, best[i].err); best[i].err == nil {
			run.note(p, at, limit, s, best[i])
		}
	}
	if least > run.window/fairnessStill {
		run.Result.Remark("%s, %d/s: the generator came up to %s late.", p.name, limit, least.Round(time.Millisecond))
	}
	return errors.Join(errs...)
}

func (run *fairnessRun) play(ctx context.Context, p population, limit int64, s *sharer, try int) (done share) {
	var before, after server.Usage
	c := run.crowd(p, limit, s, try)
	g, err := s.crowd.Gather(ctx, c,
		fleet.Mark{At: run.lead(), Do: func() (err error) { before, err = s.servers.Usage(ctx); return err }},
		fleet.Mark{At: c.For, Do: func() (err error) { after, err = s.servers.Usage(ctx); return err }},
	)
	if err == nil || ctx.Err() != nil {
		return share{crowd: c, gathered: g, used: after.Since(before), err: err}
	}
	err = fmt.Errorf("%s: %w", s.name, err)
	s.crowd.Close() // after an error it is of no further use
	crowd, failed := fleet.Start(run.processes)
	s.crowd = crowd
	return share{err: errors.Join(err, failed)}
}

// crowd is the participants as a fleet plays them.
func (run *fairnessRun) crowd(p population, limit int64, s *sharer, try int) fleet.Crowd {
	return fleet.Crowd{
		Kind: s.kind, Addrs: s.servers.Addrs(),
		Limit:   fmt.Sprintf("fairness-%s-%d-%d", p.name, limit, try),
		Permits: int64(float64(limit) * run.window.Seconds()), Per: run.window, Shards: s.shards,
		Members: p.members(run.participants, float64(limit), run.lead()+fairnessStep*run.window),
		Gateway: p.gateway, Tick: 10 * time.Millisecond, For: run.lead() + time.Duration(run.windows)*run.window,
		Seed: 1,
		Life: 2 * time.Minute,
	}
}

func (run *fairnessRun) lead() time.Duration { return fairnessLead * run.window }

// note turns what became of the calls into figures. What was asked of one shard is
// divided perfectly too: all sharers are asked for about the same.
func (run *fairnessRun) note(p population, at int, limit int64, s *sharer, done share) {
	c, g, used := done.crowd, done.gathered, done.used
	add := func(series string, found figures) {
		named := make(figures)
		for metric, value := range found {
			named[fairnessMetric(metric, limit)] = value
		}
		run.Note(series, float64(at), named)
	}
	record, ops, granted := recordOf(c, g, fairnessLead)
	v := record.Judge()
	add(s.name, figures{"jain": v.Jain, "least": v.Least, "highest": v.Most, "used": 100 * v.Used,
		"most":    100 * float64(history.Busiest(c.Per, ops).Permits) / float64(c.Permits),
		"calls":   float64(used.Scripts) / float64(max(granted, 1)),
		"servers": 100 * used.CPU / (c.For - fairnessLead*c.Per).Seconds()})
	if s.kind == fleet.Coalesced && s.shards == 1 {
		v := record.Perfect().Judge()
		add(perfectDivision, figures{"jain": v.Jain, "least": v.Least, "highest": v.Most, "used": 100 * v.Used})
	}
	if p.settles != nil {
		if windows, ok := record.Settled(fairnessStep*fairnessBins,
			func(i int) bool { return p.settles(i, len(c.Members)) }); ok {
			add(s.name, figures{"settled": windows})
		} else {
			run.Result.Remark("%s, %s, %d/s: those who came or stayed never got what they were entitled to.", s.name,
				p.name,
				limit)
		}
	}
	if g.Failed+g.Unsent > 0 {
		run.Result.Remark("%s, %s, %d/s: %d calls failed, for example: %s; %d were never sent.", s.name, p.name, limit,
			g.Failed, g.Err, g.Unsent)
	}
	if p.name == hog && limit == run.limits[0] && s.name != "shardlimit, 1 shard" {
		run.Result.Charts = append(run.Result.Charts, course(s.name, c, g))
	}
}

// recordOf counts the calls from so many windows after the beginning. The
// operations are of all the time, the granted permits of the recorded.
func recordOf(c fleet.Crowd, g fleet.Gathering, lead int) (record *parts.Record, ops []history.Op, granted int64) {
	weights := make([]float64, len(c.Members))
	for i, m := range c.Members {
		weights[i] = m.Weight
	}
	record = parts.NewRecord(weights, c.Permits, fairnessBins, int(c.For/c.Per)-lead)
	skip := time.Duration(lead) * c.Per
	for _, trail := range g.Trails {
		for _, t := range trail.Takes {
			asked, answered := time.Duration(t.At)*time.Microsecond-skip, time.Duration(t.End)*time.Microsecond-skip
			record.Add(trail.Index, c.Per, asked, answered, t.Wanted, t.Granted)
			if answered >= 0 && answered < c.For-skip {
				granted += t.Granted
			}
			if t.Granted > 0 {
				ops = append(ops, history.Op{Start: max(t.At, 0) * 1000, End: t.End * 1000, Permits: t.Granted})
			}
		}
	}
	return record, ops, granted
}

// course draws what each participant got over time, from the beginning, where one of them is a hog.
func course(sharer string, c fleet.Crowd, g fleet.Gathering) report.Chart {
	record, _, _ := recordOf(c, g, 0)
	chart := report.Chart{
		Name:  strings.NewReplacer(", ", "-", " ", "-").Replace("course-" + hog + "-" + sharer),
		Title: "A hog beside 49 others: " + strings.Replace(sharer, "script", "first come, first served", 1),
		X:     "windows, end of each", Unit: "admitted over entitlement", First: 1,
		Step: float64(fairnessCourse) / fairnessBins, LogY: true, Floor: 0.05, Ceiling: 50, Mark: 1,
	}
	for i := range c.Members {
		line := report.Line{Group: "the others", Y: record.Course(i, fairnessCourse)}
		if i == 0 {
			line.Group = "the hog"
		}
		for k := range line.Y {
			line.Y[k] = math.Round(line.Y[k]*1000) / 1000
		}
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}
