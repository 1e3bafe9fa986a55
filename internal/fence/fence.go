// Package fence tells which nodes of a key prefix are in, and for how long that may be relied on. A
// majority of places keeps that as a membership (internal/majority): its generation grows with each
// change. A process asks a node for permits only while it has confirmed a generation under which
// the node is in, and each call carries that time as its end. So once a later generation has put a
// node out, the node grants nothing more after a time that everybody can work out, and what it had
// can be taken over.
//
// This file is what a process knows; exchange.go asks the places, watch.go puts nodes out and has
// them in again.
package fence

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
)

const (
	// confirmFor is for how long after a read began a process relies on what it found.
	confirmFor = node.Relied
	// confirmEvery is how often a process in use reads: often enough that one failure does no harm.
	confirmEvery = confirmFor / 3
	// relied is confirmFor, and what a node's clock may have drifted since a reply told its time,
	// which is at most a minute ago.
	relied = confirmFor + time.Minute/100
	// movesAtOnce bounds how many limits of a process follow their nodes at a time: there may be
	// thousands, and calls are to be served meanwhile.
	movesAtOnce = 8
)

// Env is what a fence is made of.
type Env struct {
	Nodes *node.Fleet
	Book  *record.Book // keeps the membership
	// After is for how long a node must be silent to be put out, and must answer to be in again.
	After time.Duration
	// Changed is called when a later generation was confirmed. It must not wait.
	Changed func()
}

// Fence is what a process knows of one membership. It is safe for concurrent use.
type Fence struct {
	*record.Watch
	env   *Env
	log   *slog.Logger
	known atomic.Pointer[knowledge] // of generation 0: nothing was ever confirmed
	least int64                     // the generation that there must be; only of who holds the token
	nodes map[string]*watched       // only of who holds the token

	Moves chan struct{} // holds a token for each limit that follows its nodes now
}

// knowledge is what one exchange found. It never changes.
type knowledge struct {
	membership majority.Membership
	held       time.Duration     // for how long at least the generation was in force then
	since      int64             // when this process first knew the generation, on its clock
	lives      map[string]string // of the nodes that are in, by name
}

// New returns the fence of a key prefix, of which nothing is known yet.
func New(env *Env) *Fence {
	f := &Fence{env: env, log: env.Nodes.Log, least: 1, nodes: make(map[string]*watched),
		Moves: make(chan struct{}, movesAtOnce)}
	f.known.Store(&knowledge{})
	f.Watch = env.Book.New("nodes", nil, nil, nil).Watch(record.Watched{Every: confirmEvery, Number: f.Generation,
		Heard: f.heard, Next: f.next, Soon: f.look})
	return f
}

// Nodes tells of the nodes which of them are out, as far as that may be relied on: of none if no
// limit in use is under the membership.
func (f *Fence) Nodes() map[string]bool {
	out := make(map[string]bool)
	if f.Until(f.env.Nodes.Clock.Elapsed()) != 0 {
		for _, n := range f.known.Load().membership.Nodes {
			out[n.Name] = n.Out
		}
	}
	return out
}

// Until returns until when what is known may be relied on, as time elapsed; 0: it may not.
func (f *Fence) Until(elapsed int64) int64 {
	return f.Watch.Until(f.Generation(), elapsed)
}

// Generation is the last one that was confirmed; 0: none was.
func (f *Fence) Generation() int64 { return f.known.Load().membership.Generation }

// Bars reports whether a shard that is of a life of a node must not be asked: the node is out, or
// in another life. A process that knows nothing bars none: its calls carry no time, and are not
// served.
func (f *Fence) Bars(name, life string) bool {
	k := f.known.Load()
	return k.membership.Generation > 0 && k.lives[name] != life
}

// Life is the life that a node is in; "" if it is not known to be in.
func (f *Fence) Life(name string) string { return f.known.Load().lives[name] }

// began is the generation in which a life began; 0 if there is no such life.
func began(life string) int64 {
	generation, err := strconv.ParseInt(life, 36, 64)
	if err != nil || generation < 1 || generation >= majority.MaxNumber {
		return 0
	}
	return generation
}

// Out reports whether a node is out.
func (f *Fence) Out(name string) bool {
	n, _ := f.known.Load().membership.Node(name)
	return n.Out
}

// GivenUpIn is how long it takes until nothing matters that a shard of a life of a node granted
// under a limit whose grants may matter for lasts. It is false if that cannot be told: the node is
// in, or others have begun another life of it since.
func (f *Fence) GivenUpIn(name, life string, lasts time.Duration) (time.Duration, bool) {
	k := f.known.Load()
	n, _ := k.membership.Node(name)
	if began := began(life); !n.Out || began == 0 || began >= n.Since {
		return 0, false
	}
	// As the places tell, or as this process has seen itself: with the lost one the rest may be a
	// majority only all together, and the clock of one may have been set back. Time elapsed will
	// not do: it takes a wall clock that was set forward for a rest of the machine.
	seen := time.Duration(f.env.Nodes.Clock.Now() - k.since)
	outFor := k.membership.OutFor(name, max(k.held, seen))
	return max(majority.GivenUp(relied, lasts)-outFor, 0), true
}

// look reads the places, and looks after the nodes: also where calls come so seldom that each of
// them has to confirm what is known.
func (f *Fence) look(ctx context.Context) error {
	if err := f.Begin(ctx); err != nil {
		return err
	}
	defer f.End()
	err := f.Exchange(ctx, true)
	ctx, cancel := context.WithTimeout(ctx, f.env.Nodes.Patience())
	defer cancel()
	f.watch(ctx)
	return err
}
