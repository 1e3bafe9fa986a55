package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/cgroup"
	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/hist"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var scale = Scenario{
	Name:  "scale",
	Title: "one limit over 1 to 12 nodes",
	Takes: 150 * time.Second,
	Question: `Does one limit on twelve nodes serve twelve times as many decisions as on one? Each
redis-server is capped by a cgroup quota to the same small part of a core, so that
the nodes and not the machine set the pace; several client processes load them.
Participants are clients of their own, dealt out to four processes. Each spreads over
two shards only, and calls of one that meet at a shard share a script call. What a node can
serve therefore depends on how many participants come to it, and with how many calls at once.

- ` + "`shardlimit`" + `: a shard a node, and a fleet that grows with the nodes: sixteen participants
  come to each node (16 in all at one node, 96 at twelve) with 8 callers each,
  which call again as soon as they are answered. Sixteen is few: real fleets are larger, which evens
  the load out further (see ` + "`sim`" + `).
- ` + "`shardlimit, 24 shards`" + `: the same fleet of 96 participants, limit and layout at every number
  of nodes: only the nodes are added.
- ` + "`script`" + `: as many callers as ` + "`shardlimit`" + ` has, one script call a decision through rueidis,
  which pipelines by itself, shards chosen by chance.
- ` + "`shardlimit, half load`" + `: a shard a node, callers that pause, so that as many
  decisions are asked for as half of what the nodes serve in script calls. Idle nodes do
  not press anybody to share a call: this shows how routing alone spreads the load.

Efficiency is decisions per second over N times those of one node in the same
round. Three things make it: how many decisions share a call, how much of their quota
the nodes use, and the CPU time that a call costs a node; each has its table. What a call costs depends on
how many others a node finds when it looks: on a machine whose cores are all busy (last table) the
clients answer late, and
calls come one by one; ` + "`script`" + `, which shares nothing, suffers from that alike. "At equal
cost" is efficiency without this third part: times
what a call cost a node over what it cost the single node. The busiest node is the one with the most
script calls. Nodes that
are all at the end of their quota differ by what a call costs them, nodes that are not by how many
calls are routed to them: the
last table correlates the calls of the nodes with both.`,
	Run: runScale,
}

const (
	scaleProcesses    = 4
	scaleParticipants = 96 // of a fleet that does not grow
	scaleCrowd        = 16 // participants that prefer each node, if the fleet grows
	scaleCallers      = 8  // for each shard that a participant prefers
	scalePreferred    = 2  // shards that a participant prefers, if there are as many
	scaleCommonShards = 24 // divides evenly by every number of nodes
	scaleWarm         = 500 * time.Millisecond
	scalePatience     = 2 * time.Second
	scaleLife         = 90 * time.Second
	scaleSmokeFleet   = 2 // processes
)

// scaleLimit is out of reach.
var scaleLimit = struct {
	permits int64
	per     time.Duration
}{1_000_000_000, time.Second}

// contender is a way to use the nodes.
type contender struct {
	name   string
	kind   fleet.Kind
	shards int     // 0: one a node, and a fleet that grows with the nodes
	load   float64 // part of the nodes' script calls that is asked for; 0: as much as they give
}

var scaleContenders = []contender{
	{"shardlimit", fleet.Coalesced, 0, 0},
	{"shardlimit, 24 shards", fleet.Coalesced, scaleCommonShards, 0},
	{"script", fleet.Plain, 0, 0},
	{"shardlimit, half load", fleet.Coalesced, 0, 0.5},
}

// scalePoint is what one contender did in one round on so many nodes.
type scalePoint struct {
	report  fleet.Report
	nodes   []server.Usage
	machine float64 // busy, percent
	known   bool    // whether machine is
}

func runScale(ctx context.Context, env Env, result *report.Result) error {
	nodes, processes := []int{1, 2, 4, 8, 12}, scaleProcesses
	if env.Smoke {
		nodes, processes = []int{1, 2}, scaleSmokeFleet
	}
	rounds, span, warm := scaleSpans(env)
	result.Views = scaleViews()
	if spreads(nodes) {
		result.Views = append(result.Views, spreadView)
	}
	setting(result, "Limit", "%d permits per %s, never reached", scaleLimit.permits, scaleLimit.per)
	setting(result, "Node", "%s of CPU time in every %s", env.quota().Time, env.quota().Period)
	setting(result, "Clients",
		"%d processes, %d participants for each node, or %d at all of them, %d callers for each shard that a "+
			"participant prefers", processes, scaleCrowd, scaleParticipants, scaleCallers)
	setting(result, "Rounds", "%d of %s for each point, after %s to warm up", rounds, span, warm)

	s, err := newScaleRun(ctx, env, result, slices.Max(nodes), processes)
	if errors.Is(err, cgroup.ErrUnsupported) {
		skipScale(env, result, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	s.warm, s.span = warm, span
	if err := s.measureAll(ctx, env, nodes, rounds); err != nil {
		return err
	}
	s.addAll(result, nodes, rounds, env.quota().Part())
	return nil
}

// scaleSpans is how often and for how long a point is measured. A span has many
// periods of the quota, so that one more or less at its ends does not matter.
func scaleSpans(env Env) (rounds int, span, warm time.Duration) {
	span = env.span(160*time.Millisecond, 4*time.Second)
	return env.rounds(3), span, min(span, scaleWarm)
}

func scaleViews() []report.View {
	return []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: "nodes", Plot: true, Keep: true},
		{Metric: "efficiency", Title: "Efficiency", Unit: "of N times one node", X: "nodes", Plot: true},
		{Metric: "equal", Title: "Efficiency at equal cost of a call", Unit: "of N times one node", X: "nodes"},
		{Metric: "calls", Title: "Script calls per second and node", Unit: "calls/s", X: "nodes", Plot: true},
		{Metric: "busiest", Title: "Busiest node", Unit: "times the mean of all", X: "nodes", Plot: true},
		{Metric: "batch", Title: "Decisions per script call", Unit: "decisions", X: "nodes"},
		{Metric: "quota", Title: "Quota that the nodes used", Unit: "%", X: "nodes"},
		{Metric: "node-cpu", Title: "CPU of a node per script call", Unit: "µs", X: "nodes"},
		{Metric: "client-cpu", Title: "Client CPU per decision", Unit: "µs", X: "nodes"},
		{Metric: "p50", Title: "Median latency", Unit: "ms", X: "nodes"},
		{Metric: "p99", Title: "99th percentile of latency", Unit: "ms", X: "nodes"},
		{Metric: "machine", Title: "Machine", Unit: "% of all cores busy", X: "nodes"},
	}
}

// skipScale says why there is nothing to see. Plots of nothing cannot be drawn.
func skipScale(env Env, result *report.Result, err error) {
	result.Views = nil
	result.Remark("Skipped: nodes of equal and small capacity need a cgroup with a CPU quota. %v.", err)
	env.Progress("skipped: %v", err)
}

// scaleRun is the capped nodes and the clients that load them.
type scaleRun struct {
	nodes      *capped
	fleet      *fleet.Fleet
	warm, span time.Duration
	points     map[scaleKey][]scalePoint
}

// scaleKey is a point of the result.
type scaleKey struct {
	contender string
	nodes     int
}

func newScaleRun(ctx context.Context, env Env, result *report.Result, nodes, processes int) (*scaleRun, error) {
	c, err := startCapped(ctx, env, result, nodes)
	if err != nil {
		return nil, err
	}
	f, err := fleet.Start(processes)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &scaleRun{nodes: c, fleet: f, points: make(map[scaleKey][]scalePoint)}, nil
}

// Close ends all processes and removes the groups.
func (s *scaleRun) Close() {
	s.fleet.Close()
	s.nodes.Close()
}

// measureAll visits every point once a round, so that a slow minute of the
// machine does not hit one of them alone.
func (s *scaleRun) measureAll(ctx context.Context, env Env, nodes []int, rounds int) error {
	for round := range rounds {
		for _, i := range rotated(len(nodes), round) {
			for _, c := range scaleContenders {
				if err := s.measure(ctx, c, nodes[i], round); err != nil {
					return fmt.Errorf("%s on %d nodes: %w", c.name, nodes[i], err)
				}
			}
			env.Progress("round %d of %d: %d nodes done", round+1, rounds, nodes[i])
		}
	}
	return nil
}

func (s *scaleRun) measure(ctx context.Context, c contender, n, round int) error {
	job := scaleJob(c, s.nodes.addrs(n), scaleName(c, n, round))
	if c.load > 0 {
		full := s.points[scaleKey{scaleContenders[0].name, n}][round]
		demand := c.load * full.callsPerSecond()
		job.Think = time.Duration(float64(job.Callers*len(job.Participants)) / demand * float64(time.Second))
	}
	for span := s.span; ; span *= 2 { // on a busy machine a short one may see nothing
		p, err := s.load(ctx, job, span)
		if err != nil {
			return err
		}
		if p.report.Decisions() > 0 && sum(p.calls()) > 0 {
			key := scaleKey{c.name, n}
			s.points[key] = append(s.points[key], p)
			return nil
		}
		if p.report.Failed > 0 || span > scalePatience {
			return fmt.Errorf("not one decision in %s, %d errors, such as: %s", span, p.report.Failed, p.report.Err)
		}
	}
}

// load has the fleet do the job and reads what it took.
func (s *scaleRun) load(ctx context.Context, job fleet.Job, span time.Duration) (p scalePoint, err error) {
	var (
		n             = len(job.Addrs)
		before, after []server.Usage
		began         ticks
	)
	p.report, err = s.fleet.Measure(ctx, job, s.warm, span,
		func() (err error) {
			before, err = s.nodes.usage(ctx, n)
			began = machineTicks("/proc/stat")
			return err
		},
		func() (err error) {
			p.machine, p.known = machineTicks("/proc/stat").busySince(began)
			after, err = s.nodes.usage(ctx, n)
			return err
		})
	for i := range after {
		p.nodes = append(p.nodes, after[i].Since(before[i]))
	}
	return p, err
}

// scaleName is the name of the limit of a point: a new one each round, so that shards
// and preferences fall differently.
func scaleName(c contender, n, round int) string {
	return fmt.Sprintf("scale-%d-%d-%s", n, round, c.name)
}

func participant(i int) string { return fmt.Sprintf("participant-%d", i) }

// scaleJob is the load of a contender on nodes.
func scaleJob(c contender, addrs []string, limit string) fleet.Job {
	shards, crowd := c.shards, scaleParticipants
	if shards == 0 {
		shards = len(addrs)
		crowd = scaleCrowd * shards / min(scalePreferred, shards)
	}
	j := fleet.Job{
		Kind: c.kind, Addrs: addrs, Limit: limit, Shards: shards,
		Permits: scaleLimit.permits, Per: scaleLimit.per,
		Callers: scaleCallers * min(scalePreferred, shards),
		Life:    scaleLife,
	}
	for i := range crowd {
		j.Participants = append(j.Participants, participant(i))
	}
	return j
}

func (p scalePoint) calls() []float64 {
	calls := make([]float64, len(p.nodes))
	for i, u := range p.nodes {
		calls[i] = float64(u.Scripts)
	}
	return calls
}

func (p scalePoint) callsPerSecond() float64 { return sum(p.calls()) / p.report.Elapsed.Seconds() }

func (p scalePoint) nodeCPU() (seconds float64) {
	for _, u := range p.nodes {
		seconds += u.CPU
	}
	return seconds
}

// batch is how many decisions shared a script call.
func (p scalePoint) batch() float64 { return float64(p.report.Decisions()) / sum(p.calls()) }

// callCPU is what a script call cost the nodes, in seconds.
func (p scalePoint) callCPU() float64 { return p.nodeCPU() / sum(p.calls()) }

// busiest is the most of the loads over their mean; 0 if there is no load.
func busiest(loads []float64) float64 {
	total := sum(loads)
	if total == 0 {
		return 0
	}
	return slices.Max(loads) * float64(len(loads)) / total
}

func sum(xs []float64) (total float64) {
	for _, x := range xs {
		total += x
	}
	return total
}

// addAll adds all points. part is how much of a core each node has.
func (s *scaleRun) addAll(result *report.Result, nodes []int, rounds int, part float64) {
	for _, c := range scaleContenders {
		for _, n := range nodes {
			points, single := s.points[scaleKey{c.name, n}], s.points[scaleKey{c.name, nodes[0]}]
			add := func(metric string, value func(round int) float64) {
				var each []float64
				for round := range rounds {
					each = append(each, value(round))
				}
				result.Add(c.name, float64(n), metric, each...)
			}
			add("rate", func(i int) float64 { return points[i].report.PerSecond() })
			if c.load == 0 {
				efficiency := func(i int) float64 {
					return points[i].report.PerSecond() / float64(n) / single[i].report.PerSecond() * float64(nodes[0])
				}
				add("efficiency", efficiency)
				add("equal", func(i int) float64 { return efficiency(i) * points[i].callCPU() / single[i].callCPU() })
			}
			add("calls", func(i int) float64 { return points[i].callsPerSecond() / float64(n) })
			add("busiest", func(i int) float64 { return busiest(points[i].calls()) })
			add("batch", func(i int) float64 { return points[i].batch() })
			add("node-cpu", func(i int) float64 { return 1e6 * points[i].callCPU() })
			add("quota", func(i int) float64 {
				return 100 * points[i].nodeCPU() / points[i].report.Elapsed.Seconds() / float64(n) / part
			})
			add("client-cpu", func(i int) float64 {
				return 1e6 * points[i].report.CPU.Seconds() / float64(points[i].report.Decisions())
			})
			add("p50", func(i int) float64 { return points[i].latency(0.5) })
			add("p99", func(i int) float64 { return points[i].latency(0.99) })
			if points[0].known {
				add("machine", func(i int) float64 { return points[i].machine })
			}
			if c.kind == fleet.Coalesced && n >= spreadFrom {
				s.addSpread(result, c, n)
			}
			remarkScale(result, c, n, points)
		}
	}
}

// latency is a quantile in milliseconds.
func (p scalePoint) latency(q float64) float64 {
	var h hist.Hist
	h.Merge(p.report.Latency)
	return float64(h.Quantile(q)) / 1e6
}

func remarkScale(result *report.Result, c contender, n int, points []scalePoint) {
	var denied, failed int64
	for _, p := range points {
		denied, failed = denied+p.report.Denied, failed+p.report.Failed
		if p.report.Err != "" {
			result.Remark("%s on %d nodes: a call failed: %s.", c.name, n, p.report.Err)
		}
	}
	if denied+failed > 0 {
		result.Remark("%s on %d nodes: %d calls were denied and %d failed, although the limit was not reached.", c.name,
			n, denied, failed)
	}
}
