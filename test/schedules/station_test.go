package schedules

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// station is a node of a schedule.
type station struct {
	name     string
	at       limittest.JobNode // how a process of its own finds it
	post     *limittest.ProxiedNode
	troubles []trouble
	remember func()             // takes a snapshot, from which it may come back
	cluster  *redistest.Cluster // nil if it is none
	hit      *redistest.Server  // the master that a trouble is about; nil: the whole node
	choose   func(r *rand.Rand) // chooses that; nil: nothing is to be chosen
	cure     func()             // nil: it is well
}

// trouble is something that can happen to a node.
type trouble struct {
	name   string
	excess string                           // for what docs/failures.md allows a share more; empty: for nothing
	skews  bool                             // the nodes\' clocks differ from then on
	cause  func(r *rand.Rand) (cure func()) // nil: it is over at once
}

// build starts the nodes of the kind.
func (s *schedule) build() limittest.Fleet {
	s.prefix = redistest.Prefix(s.T)
	f := limittest.Fleet{Prefix: s.prefix}
	add := func(st *station, node shardlimit.Node) {
		s.stations = append(s.stations, st)
		f.Nodes = append(f.Nodes, node)
	}
	alone := 4
	switch s.plan.kind {
	case "cluster":
		alone = 2 * s.IntN(2)
		st, node := s.clusterStation()
		add(st, node)
	case "sentinel":
		alone = 2 + s.IntN(2)
		st, node := s.sentinelStation()
		add(st, node)
	}
	if alone > 0 {
		rest, posts := limittest.Proxied(s.T, alone, redistest.Stepped(s.T))
		for i, p := range posts {
			add(aloneStation(s.T, p), rest.Nodes[i])
		}
	}
	return f
}

// aloneStation is a server that stands alone.
func aloneStation(tb testing.TB, p *limittest.ProxiedNode) *station {
	st := &station{name: p.Name, post: p, at: limittest.JobNode{Name: p.Name, Addrs: []string{p.Proxy.Addr()}}}
	for _, f := range append(refusals(tb), limittest.NodeFailures...) {
		st.troubles = append(st.troubles, trouble{name: f.Name, cause: func(*rand.Rand) func() {
			f.Cause(p)
			return func() { f.Cure(p) }
		}})
	}
	st.restarts(p.Server)
	at := func(name, excess string, act func(r *rand.Rand)) {
		st.troubles = append(st.troubles, trouble{name: name, excess: excess, skews: strings.Contains(name, "clock"),
			cause: func(r *rand.Rand) func() { act(r); return nil }})
	}
	at("forgets its scripts", "", func(*rand.Rand) { p.Do(tb, "SCRIPT", "FLUSH") })
	if p.Server.CanStepClock() {
		at("has its clock set forward", "a clock that steps forward", func(r *rand.Rand) {
			p.Server.StepClock([]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second,
				time.Hour}[r.IntN(4)])
		})
		at("has its clock set back", "", func(r *rand.Rand) {
			p.Server.StepClock(-[]time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(3)])
		})
	}
	return st
}

// restarts are troubles of a server that is started again, at once or after a while.
func (st *station) restarts(server *redistest.Server) {
	var old redistest.Snapshot
	st.remember = func() {
		if taken, err := server.Save(); err == nil { // a server that is broken has none
			old = taken
		}
	}
	again := func(name, excess string, restart func()) {
		st.troubles = append(st.troubles,
			trouble{name: name + " at once", excess: excess, cause: func(*rand.Rand) func() { restart(); return nil }},
			trouble{name: name + " later", excess: excess,
				cause: func(*rand.Rand) func() { server.Kill(); return restart }})
	}
	again("comes back empty", "", server.Restart)
	again("comes back from an old snapshot", "a server from an old snapshot", func() { server.RestartFrom(old) })
	st.troubles = append(st.troubles, trouble{name: "starts again with its data", cause: func(*rand.Rand) func() {
		server.RestartKept()
		return nil
	}})
}

// clusterStation is a Redis Cluster of three masters with a replica each.
func (s *schedule) clusterStation() (*station, shardlimit.Node) {
	coverage := []string{"yes", "no"}[s.IntN(2)]
	c := redistest.NewCluster(s.T, 3, 1, redistest.Args("--cluster-require-full-coverage", coverage))
	st := &station{name: "c", at: limittest.JobNode{Name: "c", Addrs: c.Addrs(), Cluster: true}, cluster: c,
		remember: func() {}}
	part := 0
	st.choose = func(r *rand.Rand) { part = r.IntN(3); st.hit = c.Masters()[part] }
	// replace fails over from a master that is down, unless the cluster did so by itself.
	replace := func(old *redistest.Server) {
		if c.Masters()[part] == old {
			c.Failover(part)
		}
	}
	st.troubles = append(losses("a master", func() *redistest.Server { return st.hit }, replace,
		func(*redistest.Server) { c.AwaitSettled() }),
		trouble{name: "fails over as planned", cause: func(r *rand.Rand) func() { c.Failover(r.IntN(3)); return nil }},
		trouble{name: "moves slots", cause: func(r *rand.Rand) func() {
			state, err := s.main.limiters[0].Peek(s.Context())
			if err != nil {
				return nil
			}
			for _, shard := range state.Shards {
				if shard.Node == st.name && r.IntN(2) == 0 {
					c.Migrate(shard.Slot, shard.Slot, r.IntN(3))
				}
			}
			return nil
		}},
		trouble{name: "forgets its scripts", cause: func(*rand.Rand) func() {
			for _, m := range c.Masters() {
				client := m.Client(s.T)
				if err := client.Do(s.Context(), client.B().ScriptFlush().Build()).Error(); err != nil {
					s.Error(err)
				}
			}
			return nil
		}},
	)
	return st, shardlimit.Node{Name: "c", Redis: c.ClientOption()}
}

const unreplicated = "a replica that was promoted before it received the last grants"

// losses are troubles of a master that dies or is paused. When it is back another one has taken its
// place.
func losses(which string, master func() *redistest.Server, replaced, joined func(old *redistest.Server)) []trouble {
	loss := func(name string, cause, cure func(*redistest.Server)) trouble {
		return trouble{name: name, excess: unreplicated, cause: func(*rand.Rand) func() {
			old := master()
			cause(old)
			return func() { replaced(old); cure(old); joined(old) }
		}}
	}
	return []trouble{loss("loses "+which, (*redistest.Server).Kill, (*redistest.Server).Restart),
		loss("has "+which+" paused", (*redistest.Server).Pause, (*redistest.Server).Resume)}
}

// sentinelStation is a master with two replicas and a sentinel.
func (s *schedule) sentinelStation() (*station, shardlimit.Node) {
	set := redistest.NewSentinel(s.T, 2)
	st := &station{name: "s", at: limittest.JobNode{Name: "s", Addrs: set.Addrs(), MasterSet: set.MasterSet()},
		remember: func() {}}
	st.troubles = append(losses("its master", set.Master, set.AwaitFailover, set.Rejoin),
		trouble{name: "fails over as asked", excess: unreplicated, cause: func(*rand.Rand) func() {
			old := set.Master()
			set.Failover()
			set.Rejoin(old)
			return nil
		}})
	return st, shardlimit.Node{Name: "s", Redis: set.ClientOption()}
}

// refusals are what an operator may do to a server so that it answers, but does nothing.
func refusals(tb testing.TB) []limittest.NodeFailure {
	refusal := func(name string, cause, cure []string) limittest.NodeFailure {
		return limittest.NodeFailure{Name: name, Cause: func(p *limittest.ProxiedNode) { p.Do(tb, cause...) },
			Cure: func(p *limittest.ProxiedNode) { p.Do(tb, cure...) }}
	}
	return []limittest.NodeFailure{
		refusal("has no memory left", []string{"CONFIG", "SET", "maxmemory", "1"},
			[]string{"CONFIG", "SET", "maxmemory", "0"}),
		refusal("is read-only", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}),
		refusal("forbids scripts", []string{"ACL", "SETUSER", "default", "-@scripting"},
			[]string{"ACL", "SETUSER", "default", "+@scripting"}),
	}
}

// hand is a process of its own that calls the main limit of a schedule.
type hand struct {
	*limittest.Worker
	suspended bool
}

func (s *schedule) hireHand() *hand {
	j := limittest.Job{Prefix: s.prefix, Name: s.main.name, Limit: s.main.versions[0].limit, Callers: 2,
		Patience: scheduleTimeout,
		Dying:    true}
	for _, st := range s.stations {
		j.Nodes = append(j.Nodes, st.at)
	}
	h := &hand{Worker: limittest.Hire(s.T, j)}
	s.main.files = append(s.main.files, h.Job.History)
	return h
}

// disturbHand kills a process, of which another one takes the place, or suspends it, or lets it go
// on.
func (s *schedule) disturbHand(e disturbance, r *rand.Rand) {
	if len(s.workers) == 0 {
		return
	}
	i := e.on % len(s.workers)
	h := s.workers[i]
	switch {
	case h.suspended:
		s.says(e, "process %d goes on", i)
		h.goOn(s)
	case r.IntN(2) == 0:
		s.says(e, "process %d is suspended", i)
		if err := redistest.StopProcess(h.Cmd.Process); err != nil {
			s.Error(err)
		}
		h.suspended = true
	default:
		s.says(e, "process %d is killed", i)
		_ = h.Cmd.Process.Kill()
		_ = h.Cmd.Wait()
		s.workers[i] = s.hireHand()
	}
}

func (h *hand) goOn(s *schedule) {
	if err := redistest.ResumeProcess(h.Cmd.Process); err != nil {
		s.Error(err)
	}
	h.suspended = false
}

// dismissHands ends all processes.
func (s *schedule) dismissHands() {
	for _, h := range s.workers {
		if h.suspended {
			h.goOn(s)
		}
		h.Dismiss(s.T)
	}
	s.workers = nil
}
