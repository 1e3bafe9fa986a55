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
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
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
	// confirmPause is for how long calls do not ask again after that failed.
	confirmPause = 500 * time.Millisecond
	// placePatience is how long one place may take, unless calls may take longer.
	placePatience = 250 * time.Millisecond
	// few and more are how many places there are: more where there are many nodes.
	few, more, many = 3, 5, 8
)

// Least is how many nodes there must be for a lost one to be taken over: with fewer there is no
// majority without it.
const Least = few

// Places returns which of the nodes are to keep a membership; nil if they are too few.
func Places(prefix string, nodes []shard.Node) []string {
	n := few
	switch {
	case len(nodes) < Least:
		return nil
	case len(nodes) >= many:
		n = more
	}
	names := make([]string, len(nodes))
	for i, nd := range nodes {
		names[i] = nd.Name
	}
	rank := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(prefix + "\x00" + name))
		return h.Sum64()
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := rank(a), rank(b); x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return slices.Index(names, a) - slices.Index(names, b)
	})
	names = names[:n]
	slices.Sort(names)
	return names
}

// Env is what the fences of a process share.
type Env struct {
	Nodes *node.Fleet
	// After is for how long a node must be silent to be put out, and must answer to be in again.
	After time.Duration
	// Changed is called when a later generation was confirmed. It must not wait.
	Changed func()
}

// Fence is what a process knows of one membership. It is safe for concurrent use.
type Fence struct {
	env    *Env
	places []string
	id     string
	ref    script.VoteRef
	slot   int
	log    *slog.Logger

	known    atomic.Pointer[knowledge]     // nil: nothing was ever confirmed
	learned  atomic.Pointer[chan struct{}] // closed with the next change of known
	reading  atomic.Bool                   // in the background
	lookedAt atomic.Int64                  // when that began last, as time elapsed; 0: never
	failedAt atomic.Int64                  // when the last try failed, as time elapsed; 0: it did not

	token    chan struct{} // holds one token: one exchange at a time
	failure  error         // of the last exchange; only of who holds the token
	proposer *majority.Proposer
	least    int64               // the generation that there must be; only of who holds the token
	nodes    map[string]*watched // only of who holds the token
}

// knowledge is what one exchange found. It never changes.
type knowledge struct {
	membership majority.Membership
	belief     majority.Belief   // in it, on the clock of time elapsed
	held       time.Duration     // for how long at least the generation was in force then
	since      int64             // when this process first knew the generation, on its clock
	lives      map[string]string // of the nodes that are in, by name
}

// New returns the fence of a membership at these places, of which nothing is known yet.
func New(env *Env, places []string) (*Fence, error) {
	proposer, err := majority.NewProposer(1+chance.N(int64(majority.MaxNumber)), len(places))
	if err != nil {
		return nil, err
	}
	slot := shard.Slot("membership")
	f := &Fence{
		env: env, places: slices.Clone(places), slot: slot, log: env.Nodes.Log,
		ref: script.VoteKey(env.Nodes.Prefix, shard.Tag(slot), "nodes:"+ID(places)), id: ID(places),
		token: make(chan struct{}, 1), proposer: proposer, least: 1, nodes: make(map[string]*watched),
	}
	f.learned.Store(news())
	return f, nil
}

// ID tells memberships at different places apart.
func ID(places []string) string {
	h := fnv.New64a()
	for _, p := range places {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = h.Write(size[:])
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Until returns until when what is known may be relied on, as time elapsed; 0: it may not.
func (f *Fence) Until(elapsed int64) int64 {
	k := f.known.Load()
	if k == nil {
		return 0
	}
	left := k.belief.Left(k.membership.Generation, time.Duration(elapsed), confirmFor)
	if left == 0 {
		return 0
	}
	return elapsed + int64(left)
}

// Generation is the last one that was confirmed; 0: none was.
func (f *Fence) Generation() int64 {
	if k := f.known.Load(); k != nil {
		return k.membership.Generation
	}
	return 0
}

// Bars reports whether a shard that is of a life of a node must not be asked: the node is out, or
// in another life. A process that knows nothing bars none: its calls carry no time, and are not
// served.
func (f *Fence) Bars(name, life string) bool {
	k := f.known.Load()
	return k != nil && k.lives[name] != life
}

// Life is the life that a node is in; "" if it is not known to be in.
func (f *Fence) Life(name string) string {
	if k := f.known.Load(); k != nil {
		return k.lives[name]
	}
	return ""
}

// over reports whether a life of a node was of this membership, and the node went out after it
// began: one that others have begun since is not over.
func (f *Fence) over(name, life string) bool {
	k := f.known.Load()
	if k == nil {
		return false
	}
	n, _ := k.membership.Node(name)
	began, mine := f.began(life)
	return n.Out && mine && began < n.Since
}

// began is the generation in which a life began; mine is false for one of another membership.
func (f *Fence) began(life string) (generation int64, mine bool) {
	since, mine := strings.CutPrefix(life, f.id+"-")
	generation, err := strconv.ParseInt(since, 36, 64)
	return generation, mine && err == nil && generation >= 1 && generation < majority.MaxNumber
}

// Out reports whether a node is out.
func (f *Fence) Out(name string) bool {
	k := f.known.Load()
	if k == nil {
		return false
	}
	n, _ := k.membership.Node(name)
	return n.Out
}

// Fenced reports whether a node has been out for so long that nobody relies on it any more.
func (f *Fence) Fenced(name string) bool { return f.outFor(name) >= majority.GivenUp(relied, 0) }

// GivenUpIn is how long it takes until nothing matters that a shard of a life of a node granted
// under a limit whose grants may matter for lasts. It is false if that cannot be told: the node is
// in, or was of another membership then.
func (f *Fence) GivenUpIn(name, life string, lasts time.Duration) (time.Duration, bool) {
	if !f.over(name, life) {
		return 0, false
	}
	return max(majority.GivenUp(relied, lasts)-f.outFor(name), 0), true
}

// outFor is -1 for a node that is not out.
func (f *Fence) outFor(name string) time.Duration {
	k := f.known.Load()
	if k == nil {
		return -1
	}
	if n, _ := k.membership.Node(name); !n.Out {
		return -1
	}
	// As the places tell, or as this process has seen itself: with the lost one the rest may be a
	// majority only all together, and the clock of one may have been set back. Time elapsed will
	// not do: it takes a wall clock that was set forward for a rest of the machine.
	seen := f.env.Nodes.Clock.Now() - k.since
	return k.membership.OutFor(name, max(k.held, time.Duration(seen)))
}

// Membership returns what was confirmed last, and whether anything was.
func (f *Fence) Membership() (majority.Membership, bool) {
	if k := f.known.Load(); k != nil {
		return k.membership, true
	}
	return majority.Membership{}, false
}

// Refresh has the places read again in the background in good time.
func (f *Fence) Refresh() {
	now := f.env.Nodes.Clock.Elapsed()
	if at := f.lookedAt.Load(); at != 0 && now-at < int64(confirmEvery) || !f.reading.CompareAndSwap(false, true) {
		return
	}
	f.lookedAt.Store(now)
	if !f.env.Nodes.Spawn(f.look) {
		f.reading.Store(false)
	}
}

// look reads the places, and looks after the nodes: also where calls come so seldom that each of
// them has to confirm what is known.
func (f *Fence) look(ctx context.Context) {
	defer f.reading.Store(false)
	ctx, cancel := context.WithTimeout(ctx, max(2*time.Second, f.env.Nodes.CallTimeout))
	defer cancel()
	f.token <- struct{}{}
	defer func() { <-f.token }()
	_ = f.exchange(ctx, true)
	f.watch(ctx)
}

// Confirm makes sure that a generation can be relied on, at most until ctx ends.
func (f *Fence) Confirm(ctx context.Context) error { return f.ConfirmSince(ctx, 0) }

// ConfirmSince is Confirm by a read that began at that time elapsed, or later.
func (f *Fence) ConfirmSince(ctx context.Context, since int64) error {
	elapsed := f.env.Nodes.Clock.Elapsed
	for has := false; ; {
		learned := *f.learned.Load()
		if until := f.Until(elapsed()); until != 0 && until-int64(confirmFor) >= since {
			return nil
		}
		if has {
			break
		}
		select {
		case f.token <- struct{}{}:
			defer func() { <-f.token }()
			has = true
		case <-learned: // by who has the token
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if failed := f.failedAt.Load(); failed != 0 && elapsed()-failed < int64(confirmPause) {
		return f.failure
	}
	return f.exchange(ctx, false)
}
