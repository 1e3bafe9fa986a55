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
	Question: `Does one limit on twelve nodes serve twelve times as many decisions as on one? Each
redis-server is capped by a cgroup quota to the same small part of a core, so that
the nodes and not the machine set the pace; several client processes load them.
The fleet is the same at every number of nodes: 48 participants, each a client of
its own, dealt out to four processes. The number of participants matters, because
each spreads over two shards only: 48 is four for each of twelve nodes, the least at
which every node is somebody's choice in practice. Real fleets are larger, which evens
the load out further (see ` + "`sim`" + `).

- ` + "`shardlimit`" + `: a shard a node, 16 callers for each shard that a participant prefers,
  each calling again as soon as it is answered. What a node gets is script calls;
  how many decisions share one depends on the callers, so these grow with the shards.
- ` + "`shardlimit, 24 shards`" + `: the same fleet, limit and layout at every number of nodes:
  only the nodes are added.
- ` + "`script`" + `: the same number of callers, one script call a decision through rueidis,
  which pipelines by itself, shards chosen by chance.
- ` + "`shardlimit, half load`" + `: a shard a node, callers that pause, so that as many
  decisions are asked for as half of what the nodes serve in script calls. Idle nodes do
  not press anybody to share a call: this shows how routing alone spreads the load.

Efficiency is decisions per second over N times those of one node in the same
round. The busiest node is the one with the most script calls. Where the nodes do not use
their quota, something else sets the pace: too few calls under way, or a machine whose
cores are all busy, which the last table tells.`,
	Run: runScale,
}

const (
	scaleProcesses    = 4
	scaleParticipants = 48
	scaleCallers      = 16 // for each shard that a participant prefers
	scalePreferred    = 2  // shards that a participant prefers, if there are as many
	scaleCommonShards = 24 // divides evenly by every number of nodes
	scaleLife         = 90 * time.Second
	scaleSmokeFleet   = 2  // processes
	scaleSmokeCrowd   = 12 // participants
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
	shards int     // 0: one a node
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
	nodes, processes, crowd := []int{1, 2, 4, 8, 12}, scaleProcesses, scaleParticipants
	if env.Smoke {
		nodes, processes, crowd = []int{1, 2}, scaleSmokeFleet, scaleSmokeCrowd
	}
	rounds, span := env.rounds(3), env.span(200*time.Millisecond, 2*time.Second)
	warm := min(span, time.Second)
	result.Views = scaleViews()
	setting(result, "Limit", "%d permits per %s, never reached", scaleLimit.permits, scaleLimit.per)
	setting(result, "Node", "%s of CPU time in every %s", cappedQuota.Time, cappedQuota.Period)
	setting(result, "Clients", "%d processes, %d participants, %d callers for each shard that a participant prefers", processes, crowd, scaleCallers)
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
	s.warm, s.span, s.crowd = warm, span, crowd
	if err := s.measureAll(ctx, env, nodes, rounds); err != nil {
		return err
	}
	s.addAll(result, nodes, rounds)
	return nil
}

func scaleViews() []report.View {
	return []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: "nodes", Plot: true},
		{Metric: "efficiency", Title: "Efficiency", Unit: "of N times one node", X: "nodes", Plot: true},
		{Metric: "calls", Title: "Script calls per second and node", Unit: "calls/s", X: "nodes", Plot: true},
		{Metric: "busiest", Title: "Busiest node", Unit: "times the mean of all", X: "nodes", Plot: true},
		{Metric: "batch", Title: "Decisions per script call", Unit: "decisions", X: "nodes"},
		{Metric: "quota", Title: "Quota that the nodes used", Unit: "%", X: "nodes"},
		{Metric: "node-cpu", Title: "CPU of a node per script call", Unit: "us", X: "nodes"},
		{Metric: "client-cpu", Title: "Client CPU per decision", Unit: "us", X: "nodes"},
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
	crowd      int // participants
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
	job := scaleJob(c, s.nodes.addrs(n), s.crowd, scaleName(c, n, round))
	if c.load > 0 {
		full := s.points[scaleKey{scaleContenders[0].name, n}][round]
		demand := c.load * full.callsPerSecond()
		job.Think = time.Duration(float64(job.Callers*len(job.Participants)) / demand * float64(time.Second))
	}
	var (
		p             scalePoint
		before, after []server.Usage
		began         ticks
		err           error
	)
	p.report, err = s.fleet.Measure(ctx, job, s.warm, s.span,
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
	if err != nil {
		return err
	}
	if p.report.Decisions() == 0 {
		return fmt.Errorf("not one decision, %d errors, such as: %s", p.report.Failed, p.report.Err)
	}
	for i := range after {
		p.nodes = append(p.nodes, after[i].Since(before[i]))
	}
	key := scaleKey{c.name, n}
	s.points[key] = append(s.points[key], p)
	return nil
}

// scaleName is the name of the limit of a point: a new one each round, so that shards
// and preferences fall differently.
func scaleName(c contender, n, round int) string {
	return fmt.Sprintf("scale-%d-%d-%s", n, round, c.name)
}

func participant(i int) string { return fmt.Sprintf("participant-%d", i) }

// scaleJob is the load of a contender on nodes.
func scaleJob(c contender, addrs []string, crowd int, limit string) fleet.Job {
	shards := c.shards
	if shards == 0 {
		shards = len(addrs)
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

func (s *scaleRun) addAll(result *report.Result, nodes []int, rounds int) {
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
				add("efficiency", func(i int) float64 {
					return points[i].report.PerSecond() / float64(n) / single[i].report.PerSecond() * float64(nodes[0])
				})
			}
			add("calls", func(i int) float64 { return points[i].callsPerSecond() / float64(n) })
			add("busiest", func(i int) float64 { return busiest(points[i].calls()) })
			add("batch", func(i int) float64 { return float64(points[i].report.Decisions()) / sum(points[i].calls()) })
			add("node-cpu", func(i int) float64 { return 1e6 * points[i].nodeCPU() / sum(points[i].calls()) })
			add("quota", func(i int) float64 {
				return 100 * points[i].nodeCPU() / points[i].report.Elapsed.Seconds() / float64(n) / cappedQuota.Part()
			})
			add("client-cpu", func(i int) float64 {
				return 1e6 * points[i].report.CPU.Seconds() / float64(points[i].report.Decisions())
			})
			add("p50", func(i int) float64 { return points[i].latency(0.5) })
			add("p99", func(i int) float64 { return points[i].latency(0.99) })
			if points[0].known {
				add("machine", func(i int) float64 { return points[i].machine })
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
		result.Remark("%s on %d nodes: %d calls were denied and %d failed, although the limit was not reached.", c.name, n, denied, failed)
	}
}
