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

var fairnessScenario = Scenario{
	Name:  "fairness",
	Title: "who gets how much of a limit that is too small for all",
	Takes: 465 * time.Second,
	Question: `Fifty participants in five processes share one limit. Each calls at random (Poisson), or at equal
distances if it is called steady, at a rate of its own, whatever it is answered; only workers wait
for their permits. What a participant is entitled to is its weighted
max-min share of what all of them really asked for, in blocks of two windows; x is what it got
over that. Reported are Jain's index of all x (1: all alike; 1/n: one has everything), the
least x, the worst of Jain's indices of single windows, the use of the limit (of what could have
been used at most), the most permits in any window, wherever it begins (more than 100 %
is a broken limit; there is no false alarm), and script calls for each permit granted.

- equal: all want 1.2 times an equal part. Pareto: twice the limit, by the quantiles of a
  Pareto(1.1) distribution. hog: one wants 50 equal parts, 49 want 1.2.
- weights: 1, 2 and 4; all want 1.5 times what their weight entitles them to.
- newcomer: one of 50 comes later; "newcomer, hog": there is only one other, which wants twice the
  limit. leavers: ten of 50 leave. Convergence counts windows from then to the end of the first
  window in which those who came (who stayed) got 95 % of what they were entitled to; 1 is the
  least there can be.
- far: equal, but replies to one of them take 4.5 ms longer. "gateway, hog": the hog among 49, all
  tenants of one process, which share its connections (Limiter.As).
- steady: all want three times an equal part; "weights, steady": three times what the weights 1, 2 and
  4 entitle them to. So nobody is ever near its part, and nothing is left to chance.
- workers: 20 participants whose callers wait for a permit (Limiter.Wait), work, and wait for the next; 5 each under
  2,000 permits a second, 50 under 20,000. Those of every other participant work for random times
  (exponential), such that
  together they want 0.7 of an equal part if each permit comes at once. The others do not work in
  between: they want all there is.
- "workers, weights": two, with the weights 1 and 3, whose callers do not work in between; 20 each under
  2,000 permits a second, 200 under 20,000.

Callers that work want what they ask for, and one more permit for each mean time of work that they
spend waiting: that a permit takes a
moment to come is counted against the limiter. So of callers that work for 70 ms and have their
permits after 2, x is 0.97.
Who waits may be granted a permit at any time between call and answer. Only those of which both lie in a window are sure
to be of that window, so "most permits in any window" sees a little less of what workers get.

"` + perfectDivision + `" is no limiter, but a yardstick for x, computed from what was asked of
` + "`shardlimit`" + ` on one shard, or wanted of it by workers. It knows beforehand what each
window will bring, and divides its permits, in
fractions, by weighted max-min; nothing is carried over to the next. Where demand is random its x is not
always 1 either: what a participant is entitled to is counted in blocks of two windows, and a call that
comes in the one in which the others want more too is gone.

` + "`shardlimit`" + ` is called once for each permit. The others are asked for all the permits that a
participant wants within 10 ms at once, which is kinder to them: ` + "`script`" + ` is our own script
without a word about who asks, so that permits go to who comes first; ` + "`redis_rate`" + ` is a GCRA;
Redisson's RRateLimiter meets the hog only, and is asked for one permit at a time. With
` + "`script` and `redis_rate`" + `
nobody can wait, so workers ask for one permit and sleep as long as they are told to, until they
have it; they meet "workers" by themselves. Those
with one shard have a server each, and run at the same time; eight shards are spread over four servers,
and once, for the hog, put on one.`,
	Run: runFairness,
}

const (
	fairnessProcesses = 5
	fairnessBins      = 20 // in a window
	fairnessLead      = 2  // windows before anything counts
	fairnessStep      = 2  // windows that count before something changes
	fairnessWindows   = 10 // that count
	fairnessCourse    = fairnessBins / 2
	fairnessLife      = 2 * time.Minute
	fairnessServers   = 4
	fairnessTries     = 3
	fairnessStill     = 10 // a window divided by this is how long the machine may stand still
	// fairnessJVMClients are shared by the participants in the JVM: a client of
	// Redisson's has dozens of connections.
	fairnessJVMClients = 10
	fairnessShards     = 8
	// perfectDivision is the series of parts.Record.Perfect.
	perfectDivision = "perfect division"
)

// fairnessSize is how much is measured.
type fairnessSize struct {
	participants, processes int
	window, tick            time.Duration
	windows                 int // that count
	tries                   int
	limits                  []int64
	populations             []population
	pictured                []string
}

func fairnessSizes(env Env) fairnessSize {
	if env.Smoke {
		return fairnessSize{
			participants: 6, processes: 2, window: 200 * time.Millisecond, tick: 10 * time.Millisecond, windows: 4,
			tries: 1, limits: []int64{2000},
			populations: slices.DeleteFunc(populations(), func(p population) bool {
				return !slices.Contains([]string{"leavers", "gateway, hog", "weights, steady", batch, weightedBatch},
					p.name)
			}),
			pictured: []string{"gateway, hog", weightedBatch},
		}
	}
	windows := env.windows(time.Second, 4, 2*fairnessWindows) // ten from --time 0.5 on
	if env.For == 0 {
		windows = min(windows, fairnessWindows)
	}
	return fairnessSize{
		participants: 50, processes: fairnessProcesses, window: time.Second, tick: 10 * time.Millisecond,
		windows: windows, tries: fairnessTries, limits: []int64{2000, 20_000},
		populations: populations(), pictured: []string{hog, batch, weightedBatch, "newcomer, hog"},
	}
}

// fairnessRun is one run of the scenario.
type fairnessRun struct {
	size    fairnessSize
	sharers []*sharer
	jvm     *rival.Redisson // or nil
	behind  farm            // its server
	mu      sync.Mutex      // guards what follows
	found   *findings
	result  *report.Result
}

func runFairness(ctx context.Context, env Env, result *report.Result) error {
	run := &fairnessRun{size: fairnessSizes(env), found: newFindings(), result: result}
	if len(env.Cases) > 0 {
		run.size.populations = slices.DeleteFunc(run.size.populations,
			func(p population) bool { return !slices.Contains(env.Cases, p.name) })
	}
	if len(run.size.populations) == 0 {
		return fmt.Errorf("none of the cases %q; there are %s", env.Cases, strings.Join(populationNames(), "; "))
	}
	size := run.size
	result.Views = fairnessViews(size)
	setting(result, "Limit", "%v permits a second, window %s", size.limits, size.window)
	setting(result, "Clients",
		"%d participants with connections of their own, %d processes; calls that are due within %s are made together",
		size.participants, size.processes, size.tick)
	setting(result, "Rounds", "1 of %d windows, after %d to warm up; changes come after %d", size.windows, fairnessLead,
		fairnessStep)
	if size.tries > 1 {
		setting(result, "Again",
			"up to %d times if the machine stood still for more than 1/%d of a window; the least disturbed counts",
			size.tries, fairnessStill)
	}
	defer run.close()
	if err := run.open(ctx, env); err != nil {
		return err
	}
	err := run.measurePopulations(ctx, env)
	run.found.addTo(result)
	return err
}

// measurePopulations goes on after an error: what one population has shown must
// not be lost with another.
func (run *fairnessRun) measurePopulations(ctx context.Context, env Env) error {
	var failed []error
	for at, p := range run.size.populations {
		began := time.Now()
		if err := run.measurePopulation(ctx, at, p); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
		left := time.Duration(len(run.size.populations)-at-1) * time.Since(began)
		env.Progress("%s done, about %s to go", p.name, left.Round(10*time.Second))
	}
	return errors.Join(failed...)
}

func (run *fairnessRun) measurePopulation(ctx context.Context, at int, p population) error {
	var failed []error
	for _, limit := range run.size.limits {
		for _, together := range run.groups(p, limit) {
			if err := run.measureAll(ctx, p, at, limit, together); err != nil {
				failed = append(failed, fmt.Errorf("%d permits a second: %w", limit, err))
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if p.name == hog && run.jvm != nil {
		if err := run.measureRedisson(ctx, p, at, run.size.limits[0]); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", rival.RedissonName, err))
		}
	}
	return errors.Join(failed...)
}

func fairnessViews(size fairnessSize) (views []report.View) {
	var cases []string
	for _, p := range size.populations {
		cases = append(cases, p.name)
	}
	for _, m := range []struct {
		metric, title, unit string
		plot                bool
	}{
		{"jain", "Jain's index of admitted over entitlement", "index", true},
		{"least", "Least x of a participant", "admitted over entitlement", true},
		{"highest", "Highest x of a participant", "admitted over entitlement", false},
		{"window", "Worst Jain's index of a single window", "index", false},
		{"used", "Use of the limit", "% of what could be used", false},
		{"most", "Most permits in any window", "% of the limit", false},
		{"calls", "Script calls per granted permit", "calls", false},
		{"settled", "Convergence after a change", "windows", false},
		{"clients", "CPU of the clients, the generator included", "% of a core", false},
		{"servers", "CPU of the servers", "% of a core", false},
		{"machine", "Machine", "% of all cores busy", false},
		{"lag", "Longest delay of the generator's own", "ms", false},
	} {
		for _, limit := range size.limits {
			views = append(views, report.View{
				Metric: fairnessMetric(m.metric, limit),
				Title:  fmt.Sprintf("%s, %s/s", m.title, report.Count(float64(limit))), Unit: m.unit,
				X: "participants", Plot: m.plot, Nominal: true, Cases: cases,
			})
		}
	}
	return views
}

func fairnessMetric(name string, limit int64) string { return fmt.Sprintf("%s-%d", name, limit) }

// crowd is the participants as a fleet plays them.
func (run *fairnessRun) crowd(p population, limit int64, s *sharer, try int) fleet.Crowd {
	size := run.size
	return fleet.Crowd{
		Kind: s.kind, Addrs: s.servers.addrs(len(s.servers)),
		Limit:   fmt.Sprintf("fairness-%s-%d-%d", p.name, limit, try),
		Permits: int64(float64(limit) * size.window.Seconds()), Per: size.window, Shards: s.shards,
		Members: p.members(size.participants, float64(limit), run.lead()+fairnessStep*size.window),
		Gateway: p.gateway, Tick: size.tick, For: run.lead() + time.Duration(size.windows)*size.window, Seed: 1,
		Life: fairnessLife,
	}
}

func (run *fairnessRun) lead() time.Duration { return fairnessLead * run.size.window }

func (run *fairnessRun) measure(ctx context.Context, p population, limit int64, s *sharer,
	try int) (share fairnessShare) {
	var before, after server.Usage
	c := run.crowd(p, limit, s, try)
	g, err := s.crowd.Gather(ctx, c,
		fleet.Mark{At: run.lead(), Do: func() (err error) { before, err = s.servers.usage(ctx); return err }},
		fleet.Mark{At: c.For, Do: func() (err error) { after, err = s.servers.usage(ctx); return err }},
	)
	if err != nil {
		return fairnessShare{err: errors.Join(err, s.replaceCrowd(ctx))}
	}
	return fairnessShare{crowd: c, gathered: g, used: after.Since(before)}
}

// note turns what became of the calls into figures. What was asked of one shard is
// divided perfectly too: all sharers are asked for about the same.
func (run *fairnessRun) note(p population, at int, limit int64, s *sharer, share fairnessShare) {
	c, g, used := share.crowd, share.gathered, share.used
	add := func(metric string, value float64) {
		run.found.add(s.name, float64(at), fairnessMetric(metric, limit), value)
	}
	record, ops, granted := run.record(c, g, fairnessLead)
	v := record.Judge()
	run.noteParts(s.name, at, limit, v)
	if s.kind == fleet.Coalesced && s.shards == 1 {
		run.noteParts(perfectDivision, at, limit, record.Perfect().Judge())
	}
	add("window", v.LeastWindow)
	add("most", 100*float64(history.Busiest(c.Per, ops).Permits)/float64(c.Permits))
	add("calls", float64(used.Scripts)/float64(max(granted, 1)))
	add("servers", 100*used.CPU/(c.For-run.lead()).Seconds())
	if g.CPU > 0 { // that of the JVM is not known
		add("clients", 100*g.CPU.Seconds()/c.For.Seconds())
		add("lag", g.Lag.Seconds()*1e3)
	}
	if p.settles != nil {
		if windows, ok := record.Settled(fairnessStep*fairnessBins,
			func(i int) bool { return p.settles(i, len(c.Members)) }); ok {
			add("settled", windows)
		} else {
			run.result.Remark("%s, %s, %d/s: those who came or stayed never got what they were entitled to.", s.name,
				p.name, limit)
		}
	}
	if v.Used > 1.1 {
		run.result.Remark("%s, %s, %d/s: %.0f %% of what was asked for meanwhile was granted, as calls were answered "+
			"long after they were made.", s.name, p.name, limit, 100*v.Used)
	}
	if g.Failed > 0 {
		run.result.Remark("%s, %s, %d/s: %d calls failed, for example: %s.", s.name, p.name, limit, g.Failed, g.Err)
	}
	if g.Unsent > 0 {
		run.result.Remark("%s, %s, %d/s: %d calls were never sent, as too many were under way: the generator or the "+
			"server was saturated.", s.name, p.name, limit, g.Unsent)
	}
	if slices.Contains(run.size.pictured, p.name) && limit == run.size.limits[0] {
		run.picture(p, s, c, g)
	}
}

// noteParts leaves out Jain's index of single windows: a perfect division has none but 1.
func (run *fairnessRun) noteParts(series string, at int, limit int64, v parts.Verdict) {
	add := func(metric string, value float64) {
		run.found.add(series, float64(at), fairnessMetric(metric, limit), value)
	}
	add("jain", v.Jain)
	add("least", v.Least)
	add("highest", v.Most)
	add("used", 100*v.Used)
}

// record counts the calls from so many windows after the beginning. The
// operations are of all the time, the granted permits of the recorded.
func (run *fairnessRun) record(c fleet.Crowd, g fleet.Gathering,
	lead int) (record *parts.Record, ops []history.Op, granted int64) {
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

// picture draws what each participant got over time, from the beginning.
func (run *fairnessRun) picture(p population, s *sharer, c fleet.Crowd, g fleet.Gathering) {
	record, _, _ := run.record(c, g, 0)
	chart := report.Chart{
		Name:  strings.NewReplacer(", ", "-", " ", "-").Replace("course-" + p.name + "-" + s.name),
		Title: fmt.Sprintf("What each participant got (%s; %s)", p.name, s.name),
		X:     "windows, end of each", Unit: "admitted over entitlement", First: 1,
		Step: float64(fairnessCourse) / fairnessBins, LogY: true, Floor: 0.05, Ceiling: 50, Mark: 1,
		Keep: p.name == "hog" && (s.name == "script" || s.name == "shardlimit, 8 shards"),
	}
	if p.waits { // each gets something, and never many times its part
		chart.LogY, chart.Floor, chart.Ceiling = false, 0, 2.5
	}
	for i, m := range c.Members {
		course := record.Course(i, fairnessCourse)
		for k := range course {
			course[k] = math.Round(course[k]*1000) / 1000
		}
		chart.Lines = append(chart.Lines, report.Line{Group: groupOf(m, c), Y: course})
	}
	run.result.Charts = append(run.result.Charts, chart)
}

// groupOf names participants that are alike.
func groupOf(m fleet.Member, c fleet.Crowd) string {
	switch {
	case m.From > 0:
		return "the newcomer"
	case m.Work > 0:
		return fmt.Sprintf("weight %g, works", m.Weight)
	case m.Callers > 0:
		return fmt.Sprintf("weight %g", m.Weight)
	case m.Rate*c.Per.Seconds() > 0.5*float64(c.Permits):
		return "the hog"
	}
	return "the others"
}
