package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

// sharer is a way to share a limit.
type sharer struct {
	name    string
	rival   string // by which it can be asked for
	kind    fleet.Kind
	shards  int
	nodes   int
	servers farm
	crowd   *fleet.Fleet
}

// open starts servers and processes for each sharer.
func (run *fairnessRun) open(ctx context.Context, env Env) error {
	for _, s := range []*sharer{
		{name: "shardlimit, 1 shard", rival: rival.Shardlimit.Name, kind: fleet.Coalesced, shards: 1, nodes: 1},
		{name: fmt.Sprintf("shardlimit, %d shards", fairnessShards), rival: rival.Shardlimit.Name,
			kind: fleet.Coalesced, shards: fairnessShards, nodes: fairnessServers},
		{name: fmt.Sprintf("shardlimit, %d shards on 1 server", fairnessShards), rival: rival.Shardlimit.Name,
			kind: fleet.Coalesced, shards: fairnessShards, nodes: 1},
		{name: "script", rival: "script", kind: fleet.FirstCome, shards: 1, nodes: 1},
		{name: "redis_rate", rival: "redis_rate", kind: fleet.RedisRate, shards: 1, nodes: 1},
	} {
		if !env.Has(s.rival) {
			continue
		}
		var err error
		if s.servers, err = env.startFarm(ctx, run.result, s.nodes); err != nil {
			return err
		}
		run.sharers = append(run.sharers, s)
		if s.crowd, err = fleet.Start(run.size.processes); err != nil {
			return err
		}
	}
	if !env.Redisson || !slices.ContainsFunc(run.size.populations, func(p population) bool { return p.name == hog }) {
		return nil
	}
	var err error
	if run.behind, err = env.startFarm(ctx, run.result, 1); err != nil {
		return err
	}
	limit := rival.Limit{Permits: int64(float64(run.size.limits[0]) * run.size.window.Seconds()), Per: run.size.window}
	run.jvm, err = env.redisson(ctx, run.result, run.behind[0].Addr(), limit, fairnessJVMClients)
	return err
}

// replaceCrowd starts other processes after an error: those that there were are of
// no further use.
func (s *sharer) replaceCrowd(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil // nothing follows
	}
	fresh, err := fleet.Start(s.crowd.Processes())
	if err != nil {
		return err
	}
	s.crowd.Close()
	s.crowd = fresh
	return nil
}

func (run *fairnessRun) close() {
	if run.jvm != nil {
		run.jvm.Close()
	}
	run.behind.close()
	for _, s := range run.sharers {
		if s.crowd != nil {
			s.crowd.Close()
		}
		s.servers.close()
	}
}

// groups are the sharers that are measured at the same time: more load than that
// would disturb what is measured. Rivals meet the smallest limit only, as what
// first come, first served does to a fleet does not depend on the size of the limit. By
// themselves they meet workers: whoever waits for them asks again and again. They do
// not meet those with weights, of which they know nothing. Eight shards on one
// server meet the hog only.
func (run *fairnessRun) groups(p population, limit int64) [][]*sharer {
	var single, sharded, crammed, asked []*sharer
	smallest := limit == run.size.limits[0]
	for _, s := range run.sharers {
		switch {
		case s.shards > s.nodes && s.nodes == 1:
			if smallest && p.name == hog {
				crammed = append(crammed, s)
			}
		case s.shards > 1:
			sharded = append(sharded, s)
		case s.kind == fleet.Coalesced || smallest && !p.waits:
			single = append(single, s)
		case smallest && p.name == batch:
			asked = append(asked, s)
		}
	}
	return slices.DeleteFunc([][]*sharer{single, sharded, crammed, asked},
		func(g []*sharer) bool { return len(g) == 0 })
}

// measureRedisson has the JVM make the calls of all participants.
func (run *fairnessRun) measureRedisson(ctx context.Context, p population, at int, limit int64) error {
	s := &sharer{name: rival.RedissonName, servers: run.behind, shards: 1}
	c := run.crowd(p, limit, s, 1)
	rates := make([]float64, len(c.Members))
	for i, m := range c.Members {
		rates[i] = m.Rate
	}
	before, err := s.servers.usage(ctx)
	if err != nil {
		return err
	}
	o, err := run.jvm.Offer(ctx, "fairness", c.Seed, c.For, rates)
	if err != nil {
		return err
	}
	after, err := s.servers.usage(ctx)
	if err != nil {
		return err
	}
	g := fleet.Gathering{Trails: make([]fleet.Trail, len(rates)), Failed: o.Failed,
		Err: "Redisson gave up waiting, or did not say why"}
	begin := int64(math.MaxInt64)
	for _, call := range o.Answered {
		begin = min(begin, call.Start)
	}
	for _, call := range o.Answered {
		t := fleet.Take{At: (call.Start - begin) / 1000, End: (call.End-begin)/1000 + 1, Wanted: 1}
		if call.Allowed {
			t.Granted = 1
		}
		trail := &g.Trails[call.Who]
		trail.Index, trail.Takes = call.Who, append(trail.Takes, t)
	}
	used := after.Since(before)
	// of the windows that count, about
	used.Scripts = used.Scripts * int64(run.size.windows) / int64(run.size.windows+fairnessLead)
	run.note(p, at, limit, s, fairnessShare{crowd: c, gathered: g, used: used})
	return nil
}
