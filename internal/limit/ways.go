package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// ways are the lanes of a limit to its shards. core.mu guards them.
type ways struct {
	core    *Core
	Lanes   []*dispatch.Lane // every lane ever made, so that its memory survives a new layout
	missing map[string]bool  // nodes that a layout names and the Config does not; the log was told of them

	// The first ones, in one piece with the core: a key seldom has others.
	first struct {
		routes Routes
		lane   dispatch.Lane
		lanes  [1]*dispatch.Lane
	}
}

// stranger tells the log, once, that a node of the layout is not in this process' Config. core.mu
// is held.
func (of *ways) stranger(node string) {
	c := of.core
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
func (of *ways) termsFor(layout shard.Layout, s shard.Shard) (*dispatch.Terms, error) {
	c := of.core
	var floor int64
	if layout.Settled {
		floor = s.Share
	}
	proposal, err := c.proposal(layout, s, floor)
	t := &dispatch.Terms{
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
// find what is there, and claim nothing. core.mu is held.
func (of *ways) leave(layout shard.Layout) {
	c := of.core
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
// there: a node that falls and returns has other shards each time. core.mu is held.
func (of *ways) forget(layout shard.Layout) {
	c := of.core
	listed := make(map[shard.Site]bool, len(layout.Shards))
	for _, s := range layout.Shards {
		listed[s.Site()] = true
	}
	c.Lanes = slices.DeleteFunc(c.Lanes, func(l *dispatch.Lane) bool {
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
func (of *ways) proposal(layout shard.Layout, s shard.Shard, floor int64) (*script.Proposal, error) {
	c := of.core
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
func (of *ways) keep(s shard.Shard) time.Duration {
	c := of.core
	switch {
	case s.Share == 0:
		return register.StateKeep
	case c.Family != nil:
		return register.KeyKeep
	}
	return headKeep
}

// LaneTo returns the lane to a shard, nil if its node is not configured.
func (of *ways) LaneTo(s shard.Shard) *dispatch.Lane {
	c := of.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane(s, nil, nil)
}

// lane does what LaneTo does, with core.mu held. A new lane gets the terms, or, where they are nil,
// such as propose nothing, and likewise the way to it.
func (of *ways) lane(s shard.Shard, t *dispatch.Terms, w *dispatch.Way) *dispatch.Lane {
	c := of.core
	n := c.Process.Nodes.Node(s.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(c.Lanes, func(l *dispatch.Lane) bool { return l.Slot == s.Slot && SiteOf(l) == s.Site() })
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
		l = &dispatch.Lane{}
	}
	l.Lead(c.Process.Lanes, w, listener{c}, w.Space.KeysAt(c.Text, c.ID), n, t)
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

// wayTo returns the way of a lane to a shard.
func (of *ways) wayTo(s shard.Shard) *dispatch.Way {
	c := of.core
	w := &dispatch.Way{
		Metrics: c.Metrics, Slot: s.Slot, Home: s.Node, Algorithm: s.Algorithm, Life: s.Life, Keyed: c.Family != nil,
	}
	if a, err := AlgorithmNamed(s.Algorithm); err == nil { // else no call gets as far as to need the keys
		w.Space = script.Algorithm(a).Space(c.Process.Config.KeyPrefix, shard.Tag(s.Slot), s.Life)
		w.Bursty, w.Paced = a.Bursty(), a == LeakyBucket
	}
	return w
}

// noTerms returns the terms of a shard that this process has no layout for: calls find what is
// there and create nothing.
func noTerms(algorithm string) *dispatch.Terms {
	a, _ := AlgorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: script.Algorithm(a)}.Proposal() // of epoch 0, which is always valid
	return &dispatch.Terms{Shards: 1, Proposal: p}
}

// newRoutes makes the routes of a plan, and tells the lanes their terms. core.mu is held.
func (of *ways) newRoutes(p *Plan) *Routes {
	c := of.core
	if len(c.Lanes) > 0 {
		c.leave(p.Layout)
		c.forget(p.Layout)
	}
	r := &c.first.routes
	if r.Plan != nil {
		r = &Routes{}
	}
	r.Plan, r.Split, r.Record = p, len(p.live) > 1, c.Record()
	r.Lanes = r.only[:0]
	all := make([]*dispatch.Lane, len(p.live))
	for i, s := range p.live {
		if all[i] = c.lane(s, p.terms[i], p.ways[i]); all[i] == nil {
			c.stranger(s.Node)
			continue
		}
		all[i].Terms.Store(p.terms[i])
		r.Lanes = append(r.Lanes, all[i])
	}
	if r.Order = r.Lanes; r.Split {
		r.Order = nil
		for _, i := range p.order {
			if all[i] != nil {
				r.Order = append(r.Order, all[i])
			}
		}
	}
	if r.Split {
		for _, l := range r.Lanes {
			l.Others.Store(&r.Lanes)
		}
	}
	return r
}

// SiteOf returns where the shard is that a lane leads to.
func SiteOf(l *dispatch.Lane) shard.Site {
	return shard.Shard{Slot: l.Slot, Node: l.Home, Algorithm: l.Algorithm, Life: l.Life}.Site()
}
