// Package membership tells which nodes of a key prefix are in, and for how long that may be relied
// on. A majority of places keeps that as a membership (internal/majority): its generation grows
// with each change. A process asks a node for permits only while it has confirmed a generation
// under which the node is in, and each call carries that time as its end. So once a later
// generation has put a node out, the node grants nothing more after a time that everybody can work
// out, and what it had can be taken over.
//
// A node that is out is lost, for every process; one is away while this process gets no answer.
//
// This file is what a process knows and hears; watch.go puts nodes out and has them in again.
package membership

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
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
	known atomic.Pointer[knowledge] // of generation 0: nothing was ever confirmed
	least int64                     // the generation that there must be; only of who holds the token
	nodes map[string]*watched       // only of who holds the token

	Moves chan struct{} // holds a token for each limit that follows its nodes now
}

// knowledge is what one exchange found. It never changes.
type knowledge struct {
	membership   majority.Membership
	held         time.Duration     // for how long at least the generation was in force then
	since        int64             // when this process first knew the generation, on its clock
	incarnations map[string]string // of the nodes that are in, by name
}

// New returns the fence of a key prefix, of which nothing is known yet.
func New(env *Env) *Fence {
	f := &Fence{env: env, least: 1, nodes: make(map[string]*watched),
		Moves: make(chan struct{}, movesAtOnce)}
	f.known.Store(&knowledge{})
	f.Watch = env.Book.New("nodes", nil, nil, nil).Watch(record.Watched{Every: confirmEvery, Number: f.Generation,
		Begins: func() error { return nil }, Heard: f.heard, Next: f.next, Soon: f.look})
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
func (f *Fence) Until(elapsed clock.Elapsed) clock.Elapsed {
	return f.Watch.Until(f.Generation(), elapsed)
}

// Generation is the last one that was confirmed; 0: none was.
func (f *Fence) Generation() int64 { return f.known.Load().membership.Generation }

// Bars reports whether a shard that is of an incarnation of a node must not be asked: the node is
// out, or in as another one. A process that knows nothing bars none: its calls carry no time, and
// are not served.
func (f *Fence) Bars(name, incarnation string) bool {
	k := f.known.Load()
	return k.membership.Generation > 0 && k.incarnations[name] != incarnation
}

// Incarnation returns the one that a node is in as; "" if it is not known to be in.
func (f *Fence) Incarnation(name string) string { return f.known.Load().incarnations[name] }

// began returns the generation in which an incarnation began; 0 if there is none.
func began(incarnation string) int64 {
	generation, err := strconv.ParseInt(incarnation, 36, 64)
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

// GivenUpIn returns how long it takes until nothing matters that a shard of an incarnation granted
// under a limit whose grants may matter for lasts. It is false if that cannot be told: the node is
// in, or others have begun another one of it since.
func (f *Fence) GivenUpIn(name, incarnation string, lasts time.Duration) (time.Duration, bool) {
	k := f.known.Load()
	n, _ := k.membership.Node(name)
	if began := began(incarnation); !n.Out || began == 0 || began >= n.Since {
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

// heard takes in what a majority has, by a read or change that began then.
func (f *Fence) heard(_ context.Context, got record.Reading, began clock.Elapsed) error {
	if !got.Exists {
		return record.ErrUnsettled
	}
	m, err := majority.DecodeMembership(got.Value)
	if err != nil {
		return err
	}
	if m.Generation < max(f.Generation(), f.least) {
		return record.ErrUnsettled // the places forgot it
	}
	old := f.known.Load()
	k := &knowledge{membership: m, held: got.Held, since: f.env.Nodes.Clock.Now(),
		incarnations: make(map[string]string, len(m.Nodes))}
	if old.membership.Generation == m.Generation {
		k.since = old.since
	}
	for _, n := range m.Nodes {
		if !n.Out {
			k.incarnations[n.Name] = strconv.FormatInt(n.Since, 36)
		}
	}
	f.known.Store(k)
	f.Learn(m.Generation, began)
	if old.membership.Generation != m.Generation {
		f.tell(m)
		f.env.Changed()
	}
	return nil
}

// next is what makes the membership that goes on.
func (f *Fence) next(context.Context) (func(record.Reading) (string, error), error) {
	return f.then(func(m members, _ time.Duration) (members, error) { return m, nil }), nil
}

type members = majority.Membership

// change makes what follows a membership that was held for so long.
type change func(m members, held time.Duration) (members, error)

// then makes what follows the membership that goes on.
func (f *Fence) then(how change) func(record.Reading) (string, error) {
	return func(found record.Reading) (string, error) {
		m, held, err := f.begin(found)
		if err == nil {
			m, err = how(m, held)
		}
		if err != nil {
			return "", err
		}
		return m.Encode()
	}
}

// begin is the membership that goes on: what was found, or what this process knows if that is
// later, or, if there is none, one in which all nodes of this process are in. Only what was found
// was held for a time.
func (f *Fence) begin(found record.Reading) (m majority.Membership, held time.Duration, err error) {
	if found.Exists {
		if m, err = majority.DecodeMembership(found.Value); err != nil {
			return m, 0, err
		}
	}
	if known := f.known.Load().membership; known.Generation > m.Generation {
		return known.Outlast(), 0, nil
	}
	if m.Generation < f.least {
		return f.anew(), 0, nil
	}
	return m, found.Held, nil
}

// anew is a membership that follows all that this process has heard of, with all of its nodes in.
func (f *Fence) anew() majority.Membership {
	var names []string
	for _, n := range f.env.Nodes.Roster().All() {
		names = append(names, n.Name)
	}
	for _, p := range f.env.Book.Known().Names {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	// By the time of day, so that no generation, and no incarnation, comes twice although nobody
	// remembers.
	generation := max(f.least, f.env.Nodes.Clock.At(f.env.Nodes.Clock.Now()).UnixMilli())
	return majority.NewMembership(generation, names...)
}

// Follow confirms a generation that is no earlier than those in which these nodes' incarnations
// began. If every place has forgotten them, all nodes are in under one that follows: their lives
// are others then.
func (f *Fence) Follow(ctx context.Context, nodes []shard.Node) error {
	generation := int64(0)
	for _, n := range nodes {
		generation = max(generation, began(n.Incarnation))
	}
	if f.Generation() >= generation {
		return nil
	}
	if err := f.ConfirmSince(ctx, f.env.Nodes.Clock.Elapsed()); err != nil || f.Generation() >= generation {
		return err
	}
	if err := f.Begin(ctx); err != nil {
		return err
	}
	defer f.End()
	f.least = generation + 1
	err := f.Exchange(ctx, false)
	if err == nil {
		f.env.Nodes.Log.Warn("the membership of the nodes was lost; it began anew", "generation", f.Generation())
	}
	return err
}
