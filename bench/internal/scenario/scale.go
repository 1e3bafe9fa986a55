package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/cgroup"
	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var scale = Scenario{
	Name:  "scale",
	Title: "one limit over 1 to 12 nodes",
	Question: `Does one limit on twelve nodes serve twelve times as many decisions as on one? Each redis-server is capped
by a cgroup quota to the same small part of a core, so that the nodes and not the machine set the pace. Participants are
clients of their own, dealt out to four processes. Each spreads over two shards only, and calls of one that meet at a
shard share a script call.

- shardlimit: a shard a node, and sixteen participants to each node with 8 callers for each shard that they prefer.
- shardlimit, 24 shards: the same fleet of 96, limit and layout at every number of nodes: only the nodes are added.
- script: as many callers as shardlimit has, one script call a decision, shards chosen by chance.
- shardlimit, half load: a shard a node, and callers that pause, so that half of what the nodes serve is asked for.

Efficiency is decisions per second over N times those of one node in the same round.`,
	X: "nodes",
	Views: []report.View{
		{Metric: "rate", Title: "Decisions per second", Head: "Decisions per second of one limit", Unit: "decisions/s",
			Keep: true},
		{Metric: "efficiency", Title: "Efficiency", Unit: "of N times one node"},
	},
	Run: runScale,
}

const (
	scaleParticipants = 96 // of a fleet that does not grow
	scaleCrowd        = 16 // participants that prefer each node, if the fleet grows
	scaleCallers      = 8  // for each shard that a participant prefers
	scalePreferred    = 2  // shards that a participant prefers, if there are as many
	scaleLife         = 90 * time.Second
)

// contender is a way to use the nodes.
type contender struct {
	name   string
	kind   fleet.Kind
	shards int     // 0: one a node, and a fleet that grows with the nodes
	load   float64 // part of the nodes' script calls that is asked for; 0: as much as they give
}

// contenders begin with the one whose script calls say what half load is.
var contenders = []contender{
	{"shardlimit", fleet.Coalesced, 0, 0},
	{"shardlimit, 24 shards", fleet.Coalesced, 24, 0}, // which divides evenly by every number of nodes
	{"script", fleet.FirstCome, 0, 0},
	{"shardlimit, half load", fleet.Coalesced, 0, 0.5},
}

// crowd is the load of a contender on nodes. The limit is a new one each round, so that shards and
// preferences fall differently. calls are the script calls a second of which half is half load.
func (c contender) crowd(addrs []string, round int, span, warm time.Duration, calls float64) fleet.Crowd {
	shards, participants := c.shards, scaleParticipants
	if shards == 0 {
		shards = len(addrs)
		participants = scaleCrowd * shards / min(scalePreferred, shards)
	}
	crowd := fleet.Crowd{Kind: c.kind, Addrs: addrs, Limit: fmt.Sprintf("scale-%d-%d-%s", len(addrs), round, c.name),
		Permits: 1_000_000_000, Per: time.Second, Shards: shards, Decide: true, For: warm + span, Life: scaleLife}
	m := fleet.Member{Weight: 1, Callers: scaleCallers * min(scalePreferred, shards)}
	if c.load > 0 {
		m.Work = time.Duration(float64(m.Callers*participants) / (c.load * calls) * float64(time.Second))
	}
	for i := range participants {
		m.Name = fmt.Sprintf("participant-%d", i)
		crowd.Members = append(crowd.Members, m)
	}
	return crowd
}

// capped is servers that have the same small part of a core each.
type capped struct {
	server.Farm
	groups []*cgroup.Group
}

// quota is what each node gets. The smallest time the kernel knows is 1 ms; a fortieth of a core
// lets twelve nodes and the clients that can saturate them share two cores and leave them idle half
// of the time. A smoke run measures nothing, so it shall not take long on a machine that is busy or
// slow.
func (s *Sheet) quota() cgroup.Quota {
	q := cgroup.Quota{Time: time.Millisecond, Period: 40 * time.Millisecond}
	if s.Smoke {
		q.Time *= 32
	}
	return q
}

// startCapped starts n servers and caps each. An error that wraps
// cgroup.ErrUnsupported means that nothing can be capped here.
func (s *Sheet) startCapped(ctx context.Context, n int, q cgroup.Quota) (c capped, err error) {
	if c.Farm, err = s.start(ctx, n); err != nil {
		return c, err
	}
	for _, node := range c.Farm {
		g, err := cgroup.New(q)
		if err == nil {
			c.groups = append(c.groups, g)
			err = g.Add(node.PID())
		}
		if err != nil {
			c.close()
			return c, fmt.Errorf("%w: %w", cgroup.ErrUnsupported, err)
		}
	}
	return c, nil
}

// unlessUncapped returns the error, or nil if it is that nothing can be capped here: then the
// scenario is skipped.
func (s *Sheet) unlessUncapped(err error) error {
	if !errors.Is(err, cgroup.ErrUnsupported) {
		return err
	}
	s.Result.Views = nil
	s.Result.Remark("Skipped: a server of small capacity needs a cgroup with a CPU quota. %v.", err)
	return nil
}

func (c capped) close() {
	c.Close()
	for _, g := range c.groups {
		_ = g.Close() // the next run sweeps up what could not be removed
	}
}

// scripts reads how many scripts the first n servers have run, at once: an answer can take a period
// of the quota.
func (c capped) scripts(ctx context.Context, n int) (sum float64, err error) {
	all, errs := make([]server.Usage, n), make([]error, n)
	var reading sync.WaitGroup
	for i := range n {
		reading.Go(func() { all[i], errs[i] = c.Farm[i].Usage(ctx) })
	}
	reading.Wait()
	for _, used := range all {
		sum += float64(used.Scripts)
	}
	return sum, errors.Join(errs...)
}

func runScale(ctx context.Context, s *Sheet) error {
	nodes, processes := []int{1, 2, 4, 8, 12}, 4
	if s.Smoke {
		nodes, processes = []int{1, 2}, 2
	}
	rounds, span := s.turns(3), s.span(4*time.Second)
	warm := min(span, 500*time.Millisecond)
	s.setting("Node", "%s of CPU time in every %s", s.quota().Time, s.quota().Period)
	s.setting("Rounds", "%d of %s for each point, after %s to warm up, a limit that is never reached", rounds, span,
		warm)
	c, err := s.startCapped(ctx, slices.Max(nodes), s.quota())
	if err != nil {
		return s.unlessUncapped(err)
	}
	defer c.close()
	f, err := fleet.Start(processes)
	if err != nil {
		return err
	}
	defer f.Close()
	single := make(map[string]scalePoint) // of one node, in each round, by contender
	var done []scalePoint                 // of a round
	return s.inTurns(rounds, len(nodes), func(round, i int) error {
		calls := 0.0
		for _, who := range contenders {
			p, err := c.load(ctx, f, who.crowd(c.Addrs()[:nodes[i]], round, span, warm, calls), warm)
			if errors.Is(err, errIdle) { // on a busy machine a short span may see nothing
				p, err = c.load(ctx, f, who.crowd(c.Addrs()[:nodes[i]], round, max(span, 2*time.Second), warm, calls),
					warm)
			}
			if err != nil {
				return fmt.Errorf("%s on %d nodes: %w", who.name, nodes[i], err)
			}
			p.who, p.nodes = who, nodes[i]
			if calls == 0 {
				calls = p.calls / p.seconds
			}
			if done = append(done, p); p.nodes == nodes[0] {
				single[who.name] = p
			}
			if p.failed > 0 {
				s.Result.Remark("%s on %d nodes: %d calls failed.", who.name, nodes[i], p.failed)
			}
		}
		return nil
	}, func() {
		for _, p := range done {
			s.Note(p.who.name, float64(p.nodes), p.figures(single[p.who.name]))
		}
		done = done[:0]
	})
}

// scalePoint is what one contender did in one round on so many nodes.
type scalePoint struct {
	who                       contender
	nodes                     int
	seconds, decisions, calls float64
	failed                    int64
}

var errIdle = errors.New("not one decision")

// load has the fleet play and reads what it took after the warm-up.
func (c capped) load(ctx context.Context, f *fleet.Fleet, crowd fleet.Crowd, warm time.Duration) (p scalePoint,
	err error) {
	var before, after float64
	n := len(crowd.Addrs)
	g, err := f.Gather(ctx, crowd,
		fleet.Mark{At: warm, Do: func() (err error) { before, err = c.scripts(ctx, n); return err }},
		fleet.Mark{At: crowd.For, Do: func() (err error) { after, err = c.scripts(ctx, n); return err }})
	if err != nil {
		return p, err
	}
	p.failed = g.Failed
	for _, trail := range g.Trails {
		for _, t := range trail.Takes {
			if t.End >= warm.Microseconds() && t.End < crowd.For.Microseconds() {
				p.decisions += float64(t.Granted)
			}
		}
	}
	p.calls = after - before
	if p.seconds = (crowd.For - warm).Seconds(); p.decisions == 0 || p.calls == 0 {
		err = fmt.Errorf("%w, %d errors, such as: %s", errIdle, g.Failed, g.Err)
	}
	return p, err
}

// figures compares with a single node in the same round.
func (p scalePoint) figures(single scalePoint) figures {
	rate := p.decisions / p.seconds
	found := figures{"rate": rate}
	if p.who.load == 0 {
		found["efficiency"] = rate / float64(p.nodes) / (single.decisions / single.seconds)
	}
	return found
}
