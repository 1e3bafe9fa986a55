package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/internal/history"
)

var accuracy = Scenario{
	Name:  "accuracy",
	Title: "what is admitted, against the limit",
	Question: `Is the limit kept, and is it used? Several clients with connections of their own call at random (Poisson)
at a rate that is a multiple of the limit. All limiters run at the same time and get the same arrivals.
"Most" is the window, wherever it begins, that wholly contains the most calls that were admitted:
more than 100 % is a broken limit, and there is no false alarm.`,
	X:     "demand, times the limit",
	Views: []report.View{{Metric: "most-random", Title: "Most permits in any window, random", Unit: "% of the limit"}},
	Run:   runAccuracy,
}

// demand is calls that several clients make at random, whatever is answered.
type demand struct {
	rate    float64 // calls per second of all clients
	clients int
	seed    uint64
	span    time.Duration
}

// demandWorkers is how many calls of a demand can be under way.
const demandWorkers = 64

// outcome is what became of a demand.
type outcome struct {
	admitted []history.Op
	load.OpenSample
}

// offer makes the calls of the demand.
func (d demand) offer(ctx context.Context, allows []rival.Allow) (o outcome, err error) {
	var record history.Recorder
	tallies := make([]*history.Tally, demandWorkers)
	for i := range tallies {
		tallies[i] = record.Tally()
	}
	plan := load.OpenPlan{Arrivals: load.Poisson(d.rate, d.clients, d.seed), For: d.span, Workers: demandWorkers}
	o.OpenSample, err = load.Open(ctx, plan, func(ctx context.Context, due load.Due) (bool, error) {
		start := history.Now()
		ok, err := allows[due.Who](ctx)
		if ok && err == nil {
			tallies[due.Worker].Add(start, history.Now(), 1)
		}
		return ok, err
	})
	o.admitted = record.Ops()
	return o, err
}

// crew is several clients of one limiter, each with connections of its own, as
// several processes would have them.
type crew struct {
	name    string
	members []rival.Handle
}

// limiters returns each client's view of the limit with this name. Crews that
// share a server do not share limits.
func (c crew) limiters(ctx context.Context, name string) ([]rival.Allow, error) {
	var allows []rival.Allow
	for _, m := range c.members {
		allow, err := m.Limiter(ctx, strings.ReplaceAll(name+"-"+c.name, " ", "_"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		allows = append(allows, allow)
	}
	return allows, nil
}

// crews starts servers, as many as the last number of nodes, and opens a crew for every rival, each
// on one of them, and for shardlimit one for each number of nodes. They are in the order of their
// names.
func (s *Sheet) crews(ctx context.Context, limit rival.Limit, clients int, nodes []int) (on server.Farm, all []crew,
	err error) {
	if on, err = s.start(ctx, nodes[len(nodes)-1]); err != nil {
		return nil, nil, err
	}
	add := func(name string, connect func() (rival.Handle, error)) {
		c := crew{name: name}
		for len(c.members) < clients && err == nil {
			var o rival.Handle
			if o, err = open(ctx, name, connect); err == nil {
				c.members = append(c.members, o)
			}
		}
		all = append(all, c)
	}
	for i, r := range s.Rivals {
		if r.Name != rival.Shardlimit.Name {
			addr := on[i%len(on)].Addr()
			add(r.Name, func() (rival.Handle, error) { return r.Open(ctx, addr, limit) })
			continue
		}
		for _, n := range nodes {
			name := fmt.Sprintf("shardlimit, %d nodes", n)
			if n == 1 {
				name = "shardlimit, 1 node"
			}
			add(name, func() (rival.Handle, error) { return rival.Sharded{Addrs: on[:n].Addrs()}.Open(limit) })
		}
	}
	if err != nil {
		closeCrews(all)
		on.Close()
	}
	slices.SortFunc(all, func(a, b crew) int { return strings.Compare(a.name, b.name) })
	return on, all, err
}

func closeCrews(all []crew) {
	for _, c := range all {
		for _, m := range c.members {
			m.Close()
		}
	}
}

func runAccuracy(ctx context.Context, s *Sheet) error {
	limit, clients := rival.Limit{Permits: 480, Per: time.Second}, 8
	nodes, demands := []int{1, 4, 16}, []float64{1, 1.5, 3}
	if s.Smoke {
		nodes, demands, clients = []int{1, 2}, []float64{3}, 2
	}
	rounds, windows := s.turns(3), s.windows(8)
	// The first window, and a rest for those that began late.
	span := time.Duration(windows+1)*limit.Per + limit.Per/10
	if s.Smoke {
		span = limit.Per / 5
	}
	s.setting("Limit", "%d permits per %s, %d clients", limit.Permits, limit.Per, clients)
	s.setting("Rounds", "%d of %d windows after the first, for each point", rounds, windows)
	on, crews, err := s.crews(ctx, limit, clients, nodes)
	if err != nil {
		return err
	}
	defer on.Close()
	defer closeCrews(crews)
	return s.inTurns(rounds, len(demands), func(round, i int) error {
		d := demand{rate: demands[i] * float64(limit.Permits), clients: clients,
			seed: uint64(round*len(demands) + i + 1), span: span}
		outcomes, err := d.offerAll(ctx, crews, fmt.Sprintf("accuracy-%d-%d", round, i))
		if err != nil {
			return err
		}
		for k, o := range outcomes {
			most := history.Busiest(limit.Per, o.admitted).Permits
			s.Note(crews[k].name, demands[i], figures{"most-random": 100 * float64(most) / float64(limit.Permits)})
			s.lost(crews[k].name, demands[i], o)
		}
		return nil
	})
}

// lost remarks on calls of which nothing can be said.
func (s *Sheet) lost(name string, times float64, o outcome) {
	if o.Failed+o.Unsent > 0 {
		s.Result.Remark("%s at %v times the limit: %d calls failed (for example: %v) and %d were never sent.", name,
			times,
			o.Failed, o.Err, o.Unsent)
	}
}

// offerAll lets all limiters meet the same demand at the same time.
func (d demand) offerAll(ctx context.Context, crews []crew, name string) ([]outcome, error) {
	var wg sync.WaitGroup
	outcomes, errs := make([]outcome, len(crews)), make([]error, len(crews))
	for i, c := range crews {
		allows, err := c.limiters(ctx, name)
		if err != nil {
			return nil, err
		}
		wg.Go(func() { outcomes[i], errs[i] = d.offer(ctx, allows) })
	}
	wg.Wait()
	return outcomes, errors.Join(errs...)
}
