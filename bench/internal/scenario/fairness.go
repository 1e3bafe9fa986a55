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
	"github.com/shardlimit/shardlimit/bench/internal/server"
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
go to who comes first; it is asked for all the permits that a participant wants within 10 ms at once. Those with one
shard have a server each, and run at the same time; eight shards are spread over four servers.`,
	X: "participants",
	Views: []report.View{
		{Metric: "least-2000", Title: "Least x of a participant, 2000/s", Unit: "admitted over entitlement"},
		{Metric: "servers-2000", Title: "CPU of the servers, 2000/s", Unit: "% of a core"},
	},
	Run: runFairness,
}

const (
	fairnessLimit  = 2000 // permits a second
	fairnessBins   = 20   // in a window
	fairnessLead   = 2    // windows before anything counts
	fairnessStep   = 2    // windows that count before somebody comes
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
	populations             []population
	sharers                 []*sharer
}

func runFairness(ctx context.Context, s *Sheet) error {
	run := &fairnessRun{Sheet: s, participants: 50, processes: 5, window: time.Second, tries: 3,
		windows: min(max(4, s.windows(20)), 10), populations: populations()}
	if s.Smoke {
		run.participants, run.processes, run.window, run.tries = 6, 2, 100*time.Millisecond, 1
		run.windows = 4
		run.populations = slices.DeleteFunc(run.populations, func(p population) bool {
			return p.name != hog && p.name != batch
		})
	}
	var names []string
	for _, p := range run.populations {
		names = append(names, p.name)
	}
	run.cases(names...)
	run.setting("Limit", "%d permits a second, window %s", fairnessLimit, run.window)
	run.setting("Clients", "%d participants, %d processes; calls that are due within 10ms are made together",
		run.participants, run.processes)
	run.setting("Rounds", "1 of %d windows, after %d to warm up; changes come after %d; up to %d times if the machine "+
		"stood still for more than 1/%d of a window: the least disturbed counts", run.windows, fairnessLead,
		fairnessStep, run.tries, fairnessStill)
	defer run.close()
	if err := run.open(ctx); err != nil {
		return err
	}
	return run.measureAll(ctx)
}

// open starts servers and processes for each sharer.
func (run *fairnessRun) open(ctx context.Context) (err error) {
	for _, s := range []*sharer{
		{name: "shardlimit, 1 shard", kind: fleet.Coalesced, shards: 1, nodes: 1},
		{name: "shardlimit, 8 shards", kind: fleet.Coalesced, shards: 8, nodes: 4},
		{name: "script", kind: fleet.FirstCome, shards: 1, nodes: 1},
	} {
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
		for _, together := range run.groups(p) {
			if err := run.measure(ctx, p, at, together); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		run.Progress("%s done, %d of %d", p.name, at+1, len(run.populations))
	}
	return errors.Join(failed...)
}

// groups are the sharers that are measured at the same time: more load than that would disturb what
// is measured. First come, first served meets workers by itself: whoever waits for it asks again
// and again.
func (run *fairnessRun) groups(p population) [][]*sharer {
	single, sharded, asked := run.sharers[0], run.sharers[1], run.sharers[2]
	if p.name == batch {
		return [][]*sharer{{single}, {sharded}, {asked}}
	}
	return [][]*sharer{{single, asked}, {sharded}}
}

// measure has sharers play at the same time, and again what a machine that stood still has
// disturbed. The attempt that it disturbed least counts.
func (run *fairnessRun) measure(ctx context.Context, p population, at int, together []*sharer) error {
	var best []share
	least := time.Duration(math.MaxInt64)
	for number := range run.tries {
		all, still := make([]share, len(together)), time.Duration(0)
		var wg sync.WaitGroup
		for i, s := range together {
			wg.Go(func() { all[i] = run.play(ctx, p, s, number) })
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
			run.note(p, at, s, best[i])
		}
	}
	if least > run.window/fairnessStill {
		run.Result.Remark("%s: the generator came up to %s late.", p.name, least.Round(time.Millisecond))
	}
	return errors.Join(errs...)
}

func (run *fairnessRun) play(ctx context.Context, p population, s *sharer, try int) (done share) {
	var before, after server.Usage
	c := run.crowd(p, s, try)
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
func (run *fairnessRun) crowd(p population, s *sharer, try int) fleet.Crowd {
	return fleet.Crowd{
		Kind: s.kind, Addrs: s.servers.Addrs(), Limit: fmt.Sprintf("fairness-%s-%d", p.name, try),
		Permits: int64(fairnessLimit * run.window.Seconds()), Per: run.window, Shards: s.shards,
		Members: p.members(run.participants, fairnessLimit, run.lead()+fairnessStep*run.window),
		Tick:    10 * time.Millisecond, For: run.lead() + time.Duration(run.windows)*run.window,
		Seed: 1,
		Life: 2 * time.Minute,
	}
}

func (run *fairnessRun) lead() time.Duration { return fairnessLead * run.window }

// note turns what became of the calls into figures. What was asked of one shard is
// divided perfectly too: all sharers are asked for about the same.
func (run *fairnessRun) note(p population, at int, s *sharer, done share) {
	c, g := done.crowd, done.gathered
	record := recordOf(c, g, fairnessLead)
	run.Note(s.name, float64(at), figures{"least-2000": record.Least(),
		"servers-2000": 100 * done.used.CPU / (c.For - run.lead()).Seconds()})
	if s == run.sharers[0] {
		run.Note(perfectDivision, float64(at), figures{"least-2000": record.Perfect().Least()})
	}
	if g.Failed+g.Unsent > 0 {
		run.Result.Remark("%s, %s: %d calls failed, for example: %s; %d were never sent.", s.name, p.name, g.Failed,
			g.Err, g.Unsent)
	}
	if p.name == hog && s != run.sharers[0] {
		run.Result.Charts = append(run.Result.Charts, course(s.name, c, g))
	}
}

// recordOf counts the calls from so many windows after the beginning.
func recordOf(c fleet.Crowd, g fleet.Gathering, lead int) *parts.Record {
	weights := make([]float64, len(c.Members))
	for i, m := range c.Members {
		weights[i] = m.Weight
	}
	record := parts.NewRecord(weights, c.Permits, fairnessBins, int(c.For/c.Per)-lead)
	skip := time.Duration(lead) * c.Per
	for _, trail := range g.Trails {
		for _, t := range trail.Takes {
			asked, answered := time.Duration(t.At)*time.Microsecond-skip, time.Duration(t.End)*time.Microsecond-skip
			record.Add(trail.Index, c.Per, asked, answered, t.Wanted, t.Granted)
		}
	}
	return record
}

// course draws what each participant got over time, from the beginning, where one of them is a hog.
func course(sharer string, c fleet.Crowd, g fleet.Gathering) report.Chart {
	record := recordOf(c, g, 0)
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
