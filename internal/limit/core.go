// Package limit is one limit in this process: how it is declared, the layout in use, and the lanes
// to its shards.
package limit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Core is one limit as one process sees it: the layout in use, and the ways to its shards. Every
// handle on the name shares it, so that all callers share its lanes.
type Core struct {
	Process *Process
	callers Callers
	Name    string // as the user wrote it; not set for a key
	ID      string // as it stands in Redis keys

	// Only for a key of a family:
	Family  *Family
	Key     Keyed
	Text    string                        // the id, behind how the keys of another one begin: see script.Space
	Invalid error                         // why the key cannot be used
	From    atomic.Pointer[Routes]        // the family's routes that this one's was made from
	move    atomic.Pointer[register.Move] // nil until the key has had to move

	Routes   atomic.Pointer[Routes] // nil until the limit has been declared or joined
	Register *register.Register     // nil for a key of a family
	Metrics  *telemetry.Limiter

	// The first ones, in one piece with the core: a key seldom has others.
	first struct {
		routes Routes
		lane   lane.Lane
		lanes  [1]*lane.Lane
	}

	mu       sync.Mutex
	declared Limit           // by the code, at the highest revision
	Lanes    []*lane.Lane    // every lane ever made, so that its memory survives a new layout
	told     atomic.Bool     // the log was told that the declaration is not in force
	missing  map[string]bool // nodes that a layout names and the Config does not; the log was told of them
}

// Callers are those who call for permits of a limit, and what they remember of it.
type Callers interface {
	// Freed tells that permits may be free where none were. With anew whoever waits begins anew:
	// usage was forgotten, or the limit changed.
	Freed(anew bool)
	// Adopted tells that another layout is in use.
	Adopted(r *Routes)
	// GiveBack returns permits that nobody uses, and tells how many could not be returned.
	GiveBack(parts []lane.Part) (lost int64)
}

// Init makes a zero Core that of a limit, as it is declared.
func (c *Core) Init(p *Process, callers Callers, name, id string, declared Limit) {
	c.Process, c.callers, c.Name, c.ID, c.declared = p, callers, name, id, declared
}

// Title returns what messages call the limit.
func (c *Core) Title() string {
	if c.Family != nil {
		return c.Family.Of.Name + "/" + c.Key.Key
	}
	return c.Name
}

// declare notes what the code declares; a higher revision replaces a lower one.
func (c *Core) declare(limit Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.Revision > c.declared.Revision {
		c.declared = limit
	}
}

// Declaration returns what the code declares, at the highest revision. For a key, that is the
// family's limit with the terms that come with the calls.
func (c *Core) Declaration() Limit {
	if f := c.Family; f != nil {
		limit := f.Of.Declaration()
		if r := f.Of.Routes.Load(); r != nil && r.Limit.Revision > limit.Revision {
			limit = r.Limit
		}
		return limit.with(c.Key.Terms())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.declared
}

// Renew makes the routes anew, after nodes turned out to be called otherwise.
func (c *Core) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.Routes.Load()
	if old == nil {
		return
	}
	c.Routes.Store(c.newRoutes(old.Plan))
	c.callers.Freed(true)
}

// Reconsider has the layout follow the nodes that went out or came in.
func (c *Core) Reconsider() {
	c.Register.ReconsiderSoon()
	c.callers.Freed(true)
}

// stranger tells the log, once, that a node of the layout is not in this process' Config. c.mu is
// held.
func (c *Core) stranger(node string) {
	if !c.missing[node] {
		if c.missing == nil {
			c.missing = make(map[string]bool)
		}
		c.missing[node] = true
		c.Process.Config.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process serves from "+
			"the others", "limiter", c.Title(), "node", node)
	}
}

// termsFor returns what to propose to a shard of the layout. Only a settled layout entitles a shard
// to its share at once; else its capacity comes from a Plan.
func (c *Core) termsFor(layout shard.Layout, s shard.Shard) (*lane.Terms, error) {
	var floor int64
	if layout.Settled {
		floor = s.Share
	}
	proposal, err := c.proposal(layout, s, floor)
	t := &lane.Terms{
		Epoch:    layout.Epoch,
		Most:     cmp.Or(s.Burst, s.Share),
		Window:   layout.Span(),
		Shards:   int64(len(layout.Live())),
		Split:    slices.ContainsFunc(layout.Live(), func(o shard.Shard) bool { return o.Node != s.Node }),
		Proposal: proposal,
	}
	if layout.Fence != nil {
		t.Fence = c.Process.Records.Fence
	}
	return t, err
}

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. c.mu is held.
func (c *Core) leave(layout shard.Layout) {
	live := make(map[shard.Site]bool)
	for _, s := range layout.Live() {
		live[s.Site()] = true
	}
	for _, l := range c.Lanes {
		at := SiteOf(l)
		if live[at] || l.Terms.Load().Epoch == layout.Epoch {
			continue
		}
		left := shard.Shard{Slot: at.Slot, Node: at.Node, Algorithm: at.Algorithm, Life: at.Life, Start: shard.Unknown}
		if t, err := c.termsFor(layout, left); err == nil { // a shard of an unknown algorithm has no keys
			if t.Fence = l.Terms.Load().Fence; l.Life == "" {
				t.Fence = nil
			}
			l.Terms.Store(t)
		}
	}
}

// forget drops the lanes that the layout has no shard for, live or leaving, once no call waits
// there: a node that falls and returns has other shards each time. c.mu is held.
func (c *Core) forget(layout shard.Layout) {
	listed := make(map[shard.Site]bool, len(layout.Shards))
	for _, s := range layout.Shards {
		listed[s.Site()] = true
	}
	c.Lanes = slices.DeleteFunc(c.Lanes, func(l *lane.Lane) bool {
		gone := !listed[SiteOf(l)] && l.Waiting.Load() == 0
		if gone {
			l.Gone.Store(true)
		}
		return gone
	})
}

// proposal offers a layout to one of its shards, with the share that it may put in force at once.
// While the layout is not settled, it says what the one before left to the shard: what a state of
// an old snapshot holds beyond that is in force elsewhere.
func (c *Core) proposal(layout shard.Layout, s shard.Shard, floor int64) (*script.Proposal, error) {
	algorithm, err := AlgorithmNamed(s.Algorithm)
	if err != nil {
		return nil, err
	}
	terms := script.Terms{
		Epoch: layout.Epoch, Target: s.Share, Floor: floor, Window: layout.Span(), Keep: c.keep(s),
		Algorithm: script.Algorithm(algorithm), Burst: s.Burst, Retire: s.Algorithm != layout.Algorithm,
		Quarantine: c.Process.quarantines(layout.Window),
	}
	if !layout.Settled && s.Start != shard.Unknown {
		terms.Held, terms.HeldKnown = s.Start, true
	}
	if c.Family != nil {
		terms.Revision = layout.Revision
	}
	return terms.Proposal()
}

// headKeep is how much longer than two windows the head of a live shard is kept, so that a rest
// makes no shard absent.
const headKeep = 24 * time.Hour

// keep returns how much longer than two windows a shard's state lives after its last use. A family
// has so many keys that those of live shards do not outlive what they tell.
func (c *Core) keep(s shard.Shard) time.Duration {
	switch {
	case s.Share == 0:
		return register.StateKeep
	case c.Family != nil:
		return register.KeyKeep
	}
	return headKeep
}

// LaneTo returns the lane to a shard, nil if its node is not configured.
func (c *Core) LaneTo(s shard.Shard) *lane.Lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane(s, nil, nil)
}

// lane does what LaneTo does, with c.mu held. A new lane gets the terms, or, where they are nil,
// such as propose nothing, and likewise the way to it.
func (c *Core) lane(s shard.Shard, t *lane.Terms, w *lane.Way) *lane.Lane {
	n := c.Process.Nodes.Node(s.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(c.Lanes, func(l *lane.Lane) bool { return l.Slot == s.Slot && SiteOf(l) == s.Site() })
	if i >= 0 && c.Lanes[i].Node == n {
		return c.Lanes[i]
	}
	if t == nil {
		t, w = noTerms(s.Algorithm), c.wayTo(s)
	}
	l := &c.first.lane
	if c.Lanes == nil {
		c.Lanes = c.first.lanes[:0]
	} else {
		l = &lane.Lane{}
	}
	l.Lead(c.Process.Lanes, w, c, w.Space.KeysAt(c.Text, c.ID), n, t)
	if f := c.Family; f != nil {
		if last := &f.Spaces[shard.RegionOf(s.Slot)]; last.Load() != &w.Space {
			last.Store(&w.Space)
		}
	}
	if i < 0 {
		c.Lanes = append(c.Lanes, l)
	} else { // the node turned out to be called otherwise
		l.Follows(c.Lanes[i])
		c.Lanes[i].Gone.Store(true)
		c.Lanes[i] = l
	}
	return l
}

// SiteOf returns where the shard is that a lane leads to.
func SiteOf(l *lane.Lane) shard.Site {
	return shard.Shard{Slot: l.Slot, Node: l.Home, Algorithm: l.Algorithm, Life: l.Life}.Site()
}

// Record returns the register that holds the limit: the family's for a key.
func (c *Core) Record() *register.Register {
	if c.Family != nil {
		return c.Family.Of.Register
	}
	return c.Register
}
