package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
)

// plan is a history before it is played: who there is, and what happens. It is plain data, so that
// it can be shrunk, sent to a worker and printed.
type plan struct {
	Seed   uint64
	Nodes  int
	Skew   []time.Duration `json:",omitempty"` // of the nodes' clocks, all the time
	Procs  []processPlan
	Limits []limitPlan
	Steps  []step
	// Scripts is how many script calls the history may make; 0: as many as any.
	Scripts int64 `json:",omitempty"`
}

// processPlan is the configuration of one process.
type processPlan struct {
	Nodes   []int           // that it lists, in its order
	Latency []time.Duration // to each node of the world, there and back
	Outage  shardlimit.OutagePolicy
	Loss    shardlimit.LossPolicy
	Timeout time.Duration // CallTimeout; 0: the default
	// NodeTimeout; 0: this process declares limits without takeover
	NodeTimeout time.Duration `json:",omitempty"`
}

// limitPlan is a limit as everybody's code declares it.
type limitPlan struct {
	Limit  shardlimit.Limit
	Family bool
}

// step is one thing that happens. What the fields mean depends on Do.
type step struct {
	Do    string
	P, L  int              `json:",omitempty"` // process, limit
	Node  int              `json:",omitempty"` // -1: all
	N     int              `json:",omitempty"` // callers
	Size  int64            `json:",omitempty"` // permits of a call
	Times int              `json:",omitempty"` // calls of each caller
	Mode  string           `json:",omitempty"`
	For   time.Duration    `json:",omitempty"` // how long it takes, or pauses between calls
	Limit shardlimit.Limit // for what changes a limit
	List  []int            `json:",omitempty"` // nodes
	Aside bool             `json:",omitempty"` // the history goes on at once
	Then  time.Duration    `json:",omitempty"` // pause after it
}

func (s step) String() string {
	var b strings.Builder
	write := func(format string, a ...any) { fmt.Fprintf(&b, format, a...) }
	write("%s", s.Do)
	if s.Mode != "" {
		write(" %s", s.Mode)
	}
	switch s.Do {
	case "rest":
		write(" %s", s.For)
	case "call":
		write(" by p%d of l%d: %d callers, %d calls each of %d permits, %s between", s.P, s.L, s.N, s.Times, s.Size,
			s.For)
	case "set", "revise", "bring":
		write(" by p%d of l%d: %s", s.P, s.L, describe(s.Limit))
	case "nodes", "place":
		write(" of p%d l%d: %v", s.P, s.L, s.List)
	case "flush", "restart", "clock", "down", "lose", "save", "restore", "stall", "retire", "join", "declare":
		write(" node %d", s.Node)
		if s.For != 0 {
			write(" %s", s.For)
		}
	case "link":
		write(" p%d to node %d for %s", s.P, s.Node, s.For)
	default:
		write(" p%d l%d", s.P, s.L)
		if s.For != 0 {
			write(" %s", s.For)
		}
	}
	if s.Aside {
		write(", and meanwhile")
	}
	if s.Then != 0 {
		write("; then %s", s.Then)
	}
	return b.String()
}

func describe(l shardlimit.Limit) string {
	return fmt.Sprintf("%v, %v, Shards %d, Lease %s", l, l.Algorithm, l.Shards, l.Lease)
}

// takesOver reports whether a process may declare limits with takeover.
func (p *plan) takesOver() bool {
	return slices.ContainsFunc(p.Procs, func(p processPlan) bool { return p.NodeTimeout > 0 })
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history of seed %d: %d nodes, clocks %v\n", p.Seed, p.Nodes, p.Skew)
	for i, proc := range p.Procs {
		fmt.Fprintf(&b, "  p%d lists nodes %v, latency %v, on outage %d, after loss %d, takeover %v\n", i,
			proc.Nodes, proc.Latency, proc.Outage, proc.Loss, proc.NodeTimeout > 0)
	}
	for i, l := range p.Limits {
		kind := "limit"
		if l.Family {
			kind = "family"
		}
		fmt.Fprintf(&b, "  l%d is a %s: %s\n", i, kind, describe(l.Limit))
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %2d. %s\n", i+1, s)
	}
	return b.String()
}
