package histories

import (
	"fmt"
	"reflect"
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

func (s step) String() string { return told(s) }

// takesOver reports whether a process may declare limits with takeover.
func (p *plan) takesOver() bool {
	return slices.ContainsFunc(p.Procs, func(p processPlan) bool { return p.NodeTimeout > 0 })
}

func (p *plan) String() string {
	lines := []string{fmt.Sprintf("history of seed %d: %d nodes, clocks %v", p.Seed, p.Nodes, p.Skew)}
	for i, proc := range p.Procs {
		lines = append(lines, fmt.Sprintf("  p%d: %s", i, told(proc)))
	}
	for i, l := range p.Limits {
		lines = append(lines, fmt.Sprintf("  l%d: %s", i, told(l)))
	}
	for i, s := range p.Steps {
		lines = append(lines, fmt.Sprintf("  %2d. %s", i+1, s))
	}
	return strings.Join(lines, "\n")
}

// told names the fields of a struct that are not zero.
func told(of any) string {
	var fields []string
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		value := fmt.Sprint(v.Field(i))
		if limit, ok := v.Field(i).Interface().(shardlimit.Limit); ok {
			value = "{" + told(limit) + "}"
		}
		if !v.Field(i).IsZero() {
			fields = append(fields, v.Type().Field(i).Name+" "+value)
		}
	}
	return strings.Join(fields, ", ")
}
