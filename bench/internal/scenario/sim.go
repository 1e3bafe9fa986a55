package scenario

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/cgroup"
	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/sim"
	"github.com/shardlimit/shardlimit/bench/internal/stat"
	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/shard"
)

var simulation = Scenario{
	Name:  "sim",
	Title: "10,000 processes on 64 nodes, simulated",
	Takes: 110 * time.Second,
	Question: `What no single machine can show: an event-by-event simulation that runs the real
code of packages shard and fairness and the Go twin of the script, with modelled times for
network and servers (package bench/internal/sim says what is modelled).

It is first held against reality: points of ` + "`scale`" + ` are measured and played. What a call costs each node is
measured with as many nodes as are played, and so is the quota: that cost depends on the machine (it grows with the
servers that share its cores), not on the limiter. How many callers rejoin a batch is taken from the point with one
node. From these the simulation predicts how many decisions share a call, how the load spreads, and the calls and
decisions per second; calls per second follow from cost and quota where all nodes are at the end of theirs. In one row
a call costs all nodes the same: what is missing there is what their costs do to the spread.

Then 10,000 processes share one limit of 64 shards on 64 nodes. "Load" is decisions
asked for, in percent of the script calls that all nodes can serve: above 100 only
coalescing helps. "Demand" is in percent of the limit. Turned away are calls that were
denied, and those that waited too long; a shard that keeps what it has for other participants counts as
one that has no room. Jain's index is that of what the processes got, where all want
more than their part; a process gets less than one permit a window from a shard there. Overdue are
script calls that took longer than half the call
timeout: a real client would give these up and avoid the node for a while, which
the simulation does not play. "Busiest" is the node with the most script calls over the mean.`,
	Run: runSim,
}

// simTimes are those of the large fleet: a call costs a node about what it cost
// the capped ones, and the network is that of a data centre.
const (
	simScript  = 20 * time.Microsecond
	simFair    = 15 * time.Microsecond // more while participants contend, as docs/design/fairness.md has it
	simDelay   = 100 * time.Microsecond
	simJitter  = 50 * time.Microsecond
	simTimeout = 100 * time.Millisecond
	simSeed    = 1
	simPermits = 50 // of each process, per window of half a second: the limit that can be reached
)

// simSize is how large the fleet is, and how long it is watched.
type simSize struct {
	processes, nodes int
	span             time.Duration
	loads, demands   []float64 // percent
	fleets           []int     // numbers of processes to compare routes at
	measured         []int     // numbers of nodes to hold the simulation against
}

func runSim(ctx context.Context, env Env, result *report.Result) error {
	size := simSize{10_000, 64, 200 * time.Millisecond, []float64{1, 50, 80, 95, 200, 1000},
		[]float64{90, 100, 110, 200}, []int{100, 1000, 10_000}, []int{1, 4, 12}}
	if env.Smoke {
		size = simSize{200, 8, 50 * time.Millisecond, []float64{50, 200}, []float64{90, 200}, []int{20, 200},
			[]int{1, 2}}
	}
	setting(result, "Fleet", "%d processes, %d nodes and shards, equal demand", size.processes, size.nodes)
	setting(result, "Times",
		"script %s and %s more while participants contend, network %s and on average %s more each way, call timeout %s",
		simScript, simFair, simDelay, simJitter, simTimeout)
	setting(result, "Limit", "out of reach for load, %d permits per 500ms for demand", simPermits*size.processes)
	setting(result, "Seed", "%d", simSeed)
	result.Views = simViews()
	if err := calibrate(ctx, env, result, size.measured); err != nil {
		return err
	}
	for _, part := range []func(context.Context, Env, *report.Result, simSize) error{simLoads, simDemands, simRoutes} {
		if err := part(ctx, env, result, size); err != nil {
			return err
		}
	}
	return nil
}

func simViews() []report.View {
	return []report.View{
		{Metric: "held", Title: "Simulated over measured", Unit: "simulated / measured", X: "nodes"},
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: "load, %", Plot: true, LogX: true,
			LogY: true},
		{Metric: "batch", Title: "Decisions per script call", Unit: "decisions", X: "load, %", LogX: true},
		{Metric: "busiest", Title: "Busiest node", Unit: "times the mean of all", X: "load, %", LogX: true},
		{Metric: "latency", Title: "Latency", Unit: "ms", X: "load, %", Plot: true, LogX: true, LogY: true},
		{Metric: "demand", Title: "At the limit", Unit: "see row", X: "demand, % of the limit"},
		{Metric: "route", Title: "Busiest node by routing rule, at half load", Unit: "times the mean of all",
			X: "processes", Plot: true, LogX: true},
	}
}

// simFleet is a fleet whose limit is out of reach.
func simFleet(processes, nodes int, load float64) sim.Config {
	c := sim.Config{
		Seed: simSeed, Limit: "sim", Permits: scaleLimit.permits, Window: time.Second, Shards: nodes,
		Route:   sim.AsBuilt(),
		Network: sim.Network{Delay: simDelay, Jitter: simJitter},
		Server:  sim.Server{Script: simScript, Contended: simFair},
		Timeout: simTimeout,
		Warm:    50 * time.Millisecond,
	}
	for i := range nodes {
		c.Nodes = append(c.Nodes, shard.Node{Name: fleet.NodeName(i)})
	}
	for i := range processes {
		c.Participants = append(c.Participants, participant(i))
	}
	return withDemand(c, load/100*float64(nodes)/simScript.Seconds())
}

// withDemand has every process ask for its part of so many decisions a second.
func withDemand(c sim.Config, rate float64) sim.Config {
	c.Demand = slices.Repeat([]float64{rate / float64(len(c.Participants))}, len(c.Participants))
	return c
}

func simLoads(ctx context.Context, env Env, result *report.Result, size simSize) error {
	for _, load := range size.loads {
		c := simFleet(size.processes, size.nodes, load)
		c.For = size.span
		r, err := sim.Run(ctx, c)
		if err != nil {
			return err
		}
		result.Add("simulated", load, "rate", r.PerSecond())
		result.Add("simulated", load, "batch", r.Batch())
		result.Add("simulated", load, "busiest", r.Busiest())
		for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999} {
			result.Add(name, load, "latency", r.Latency.Quantile(q).Seconds()*1e3)
		}
		env.Progress("load %.0f %%: %.0f decisions/s", load, r.PerSecond())
	}
	return nil
}

// simDemands puts the fleet against a limit that it can reach.
func simDemands(ctx context.Context, env Env, result *report.Result, size simSize) error {
	for _, demand := range size.demands {
		c := simFleet(size.processes, size.nodes, 0)
		c.Window = 500 * time.Millisecond
		c.Permits = simPermits * int64(size.processes)
		c = withDemand(c, demand/100*float64(c.Permits)/c.Window.Seconds())
		c.Warm, c.For = c.Window, c.Window
		r, err := sim.Run(ctx, c)
		if err != nil {
			return err
		}
		possible := min(demand/100, 1) * float64(c.Permits) // in one window
		result.Add("permits granted, % of what could be", demand, "demand", 100*float64(r.Granted)/possible)
		if refused := float64(r.Denied + r.Late); refused > 0 { // of none there is no part
			result.Add("denied or late while a shard had room, %", demand, "demand", percent(r.Stranded, refused))
			result.Add("denied from memory, %", demand, "demand", percent(float64(r.Local), refused))
		}
		result.Add("script calls per permit", demand, "demand", float64(r.AllCalls())/float64(max(r.Granted, 1)))
		result.Add("script calls in vain, %", demand, "demand", percent(float64(r.Vain), float64(r.AllCalls())))
		result.Add("script calls overdue, %", demand, "demand", percent(float64(r.Overdue), float64(r.AllCalls())))
		result.Add("calls that waited too long, %", demand, "demand",
			percent(float64(r.Late), float64(r.Late+r.Allowed+r.Denied)))
		result.Add("busiest node", demand, "demand", r.Busiest())
		if demand >= 200 { // everybody wants more than its part, however chance has it
			result.Add("Jain's index of what each got", demand, "demand", fairness.Jain(floats(r.Got)))
		}
		result.Add("p99 of allowed, ms", demand, "demand", r.Latency.Quantile(0.99).Seconds()*1e3)
		env.Progress("demand %.0f %%: %d permits, %d script calls", demand, r.Granted, r.AllCalls())
	}
	return nil
}

func floats(ns []int64) []float64 {
	xs := make([]float64, len(ns))
	for i, n := range ns {
		xs[i] = float64(n)
	}
	return xs
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

// simRoutes compares the routing rule with others.
func simRoutes(ctx context.Context, env Env, result *report.Result, size simSize) error {
	for _, rule := range []struct {
		name  string
		route sim.Route
	}{
		{"first 2, idle ones in turn (as built)", sim.AsBuilt()},
		{"first 2, ties to the first", sim.Route{Preferred: 2}},
		{"first 2, ties by chance", sim.Route{Preferred: 2, Even: true}},
		{"first 4, ties by chance", sim.Route{Preferred: 4, Even: true}},
		{"first 8, ties by chance", sim.Route{Preferred: 8, Even: true}},
		{"all, ties by chance", sim.Route{Preferred: sim.MaxShards, Even: true}},
	} {
		for _, processes := range size.fleets {
			c := simFleet(processes, size.nodes, 50)
			c.Route, c.For = rule.route, size.span
			r, err := sim.Run(ctx, c)
			if err != nil {
				return err
			}
			result.Add(rule.name, float64(processes), "route", r.Busiest())
		}
	}
	env.Progress("routing rules compared")
	return nil
}

// calibrate measures points of scale and plays them.
func calibrate(ctx context.Context, env Env, result *report.Result, nodes []int) error {
	rounds, span, warm := scaleSpans(env)
	s, err := newScaleRun(ctx, env, result, slices.Max(nodes), scaleProcesses)
	if errors.Is(err, cgroup.ErrUnsupported) {
		result.Views = result.Views[1:]
		result.Remark("Not held against measurements: nodes of small capacity need a cgroup with a CPU quota. %v.", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	s.warm, s.span = warm, span
	full := scaleContenders[0]
	held := make(map[scaleKey][]float64)
	for round := range rounds {
		for _, n := range nodes { // the first tells how callers rejoin
			if err := s.measure(ctx, full, n, round); err != nil {
				return err
			}
			one, here := s.points[scaleKey{full.name, nodes[0]}][round], s.points[scaleKey{full.name, n}][round]
			c := calibrated(one, here, round)
			r, err := sim.Run(ctx, c)
			if err != nil {
				return err
			}
			c.Server.Uneven = nil
			alike, err := sim.Run(ctx, c)
			if err != nil {
				return err
			}
			hold := func(what string, simulated, measured float64) {
				key := scaleKey{what, n}
				held[key] = append(held[key], simulated/measured)
			}
			hold(heldCalls, float64(r.AllCalls())/r.Elapsed.Seconds(), here.callsPerSecond())
			hold(heldDecisions, r.PerSecond(), here.report.PerSecond())
			hold(heldBatch, r.Batch(), here.batch())
			hold(heldBusiest, r.Busiest(), busiest(here.calls()))
			hold(heldAlike, alike.Busiest(), busiest(here.calls()))
		}
		env.Progress("held against round %d of %d", round+1, rounds)
	}
	addHeld(result, held, nodes)
	return nil
}

// What the simulation is held against.
const (
	heldCalls     = "script calls per second"
	heldDecisions = "decisions per second"
	heldBatch     = "decisions per script call"
	heldBusiest   = "busiest node"
	heldAlike     = "busiest node, if a call cost all the same"
)

func addHeld(result *report.Result, held map[scaleKey][]float64, nodes []int) {
	for _, what := range []string{heldCalls, heldDecisions, heldBatch, heldBusiest, heldAlike} {
		for _, n := range nodes {
			each := held[scaleKey{what, n}]
			result.Add(what, float64(n), "held", each...)
			if off := stat.Of(each...).Median; what != heldAlike && (off < 0.9 || off > 1.1) {
				result.Remark("Simulated %s on %d nodes are %.2f times the measured ones: more than 10 %% off.", what,
					n, off)
			}
		}
	}
}

// calibrated is a point of scale, with what it says about its servers, and what the point
// with one node says about callers.
func calibrated(one, here scalePoint, round int) sim.Config {
	n := len(here.nodes)
	job := scaleJob(scaleContenders[0], make([]string, n), scaleName(scaleContenders[0], n, round))
	quota := here.nodeCPU() / float64(n) / here.report.Elapsed.Seconds()
	c := simFleet(len(job.Participants), n, 0)
	c.Limit, c.Participants, c.Demand, c.Callers = job.Limit, job.Participants, nil, job.Callers
	c.Timeout, c.Reaction = 0, 20*time.Microsecond
	c.Network = sim.Network{Delay: 30 * time.Microsecond, Jitter: 20 * time.Microsecond} // the loopback interface
	c.Server = sim.Server{
		Script: time.Duration(here.callCPU() * float64(time.Second)),
		Uneven: here.uneven(),
		Quota:  min(time.Duration(quota*float64(cappedQuota.Period)), cappedQuota.Period),
		Period: cappedQuota.Period,
	}
	c.Route.Rejoin = rejoin(scaleCallers, one.batch())
	c.Warm, c.For = time.Second, 4*time.Second
	return c
}

// uneven is what a call costs each node, over what it costs them together; nil if one had none.
func (p scalePoint) uneven() []float64 {
	each := make([]float64, len(p.nodes))
	for i, u := range p.nodes {
		if u.Scripts == 0 || u.CPU <= 0 {
			return nil
		}
		each[i] = u.CPU / float64(u.Scripts) / p.callCPU()
	}
	return each
}

// rejoin is the part of the callers just answered that must make it into the next
// batch, so that a closed loop of so many callers has batches of this size: of C callers,
// x answered ones and a part f that rejoins, the next batch has C-x+fx.
func rejoin(callers, batch float64) float64 {
	return min(max(2-callers/batch, 0), 1)
}
