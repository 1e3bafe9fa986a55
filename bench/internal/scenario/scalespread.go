package scenario

import (
	"math"
	"slices"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/shard"
)

// spreadFrom is how many nodes there must be for a correlation to mean anything.
const spreadFrom = 4

// spreadView tells what makes nodes differ. Nodes at the end of their quota serve
// the more calls, the less a call costs them; others those that routing brings.
var spreadView = report.View{
	Metric: "spread", Title: "What a node's script calls go with", Unit: "correlation over the nodes", X: "nodes",
}

// addSpread correlates the calls of the nodes with what a call costs them, and with how many
// participants prefer them. c is one that routes.
func (s *scaleRun) addSpread(result *report.Result, c contender, n int) {
	var cost, crowd []float64
	for round, p := range s.points[scaleKey{c.name, n}] {
		calls, each := p.calls(), make([]float64, n)
		for i := range each {
			each[i] = p.nodes[i].CPU / calls[i]
		}
		job := scaleJob(c, make([]string, n), scaleName(c, n, round))
		cost = append(cost, correlation(calls, each))
		crowd = append(crowd, correlation(calls, preferring(job)))
	}
	result.Add(c.name+": what a call costs the node", float64(n), spreadView.Metric, cost...)
	result.Add(c.name+": participants that prefer it", float64(n), spreadView.Metric, crowd...)
}

// preferring is how many participants prefer a shard of each node, counted once for each shard.
func preferring(job fleet.Job) []float64 {
	nodes, place := make([]shard.Node, len(job.Addrs)), make(map[string]int)
	for i := range nodes {
		nodes[i].Name = fleet.NodeName(i)
		place[nodes[i].Name] = i
	}
	shards := shard.Arrange("n:"+job.Limit, job.Permits, job.Shards, nodes) // as the root package names limits
	counts := make([]float64, len(nodes))
	for _, who := range job.Participants {
		ranked := shard.Rank(who, shards)
		for _, k := range ranked[:min(scalePreferred, len(ranked))] {
			counts[place[shards[k].Node]]++
		}
	}
	return counts
}

// correlation is Pearson's; 0 if one of the two does not vary.
func correlation(xs, ys []float64) float64 {
	n := float64(len(xs))
	mx, my := sum(xs)/n, sum(ys)/n
	var xx, yy, xy float64
	for i := range xs {
		dx, dy := xs[i]-mx, ys[i]-my
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// spreads reports whether some of the numbers of nodes have a correlation.
func spreads(nodes []int) bool { return slices.Max(nodes) >= spreadFrom }
