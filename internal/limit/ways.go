package limit

import (
	"slices"

	"github.com/shardlimit/shardlimit/internal/dispatch"
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
	if !of.missing[node] {
		if of.missing == nil {
			of.missing = make(map[string]bool)
		}
		of.missing[node] = true
		of.core.Process.Config.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process "+
			"serves from the others", "limiter", of.core.Title(), "node", node)
	}
}

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. core.mu is held.
func (of *ways) leave(layout shard.Layout) {
	live := make(map[shard.Site]bool)
	for _, s := range layout.Live() {
		live[s.Site()] = true
	}
	for _, l := range of.Lanes {
		at := SiteOf(l)
		if live[at] || l.Terms.Load().Epoch == layout.Epoch {
			continue
		}
		left := shard.Shard{Slot: at.Slot, Node: at.Node, Algorithm: at.Algorithm, Life: at.Life, Start: shard.Unknown}
		if t, err := of.core.terms(layout, left); err == nil { // a shard of an unknown algorithm has no keys
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
	listed := make(map[shard.Site]bool, len(layout.Shards))
	for _, s := range layout.Shards {
		listed[s.Site()] = true
	}
	of.Lanes = slices.DeleteFunc(of.Lanes, func(l *dispatch.Lane) bool {
		gone := !listed[SiteOf(l)] && l.Waiting.Load() == 0
		if gone {
			l.Gone.Store(true)
		}
		return gone
	})
}

// LaneTo returns the lane to a shard, nil if its node is not configured.
func (of *ways) LaneTo(s shard.Shard) *dispatch.Lane {
	of.core.mu.Lock()
	defer of.core.mu.Unlock()
	return of.lane(s, nil, nil)
}

// lane does what LaneTo does, with core.mu held. A new lane gets the terms, or, where they are nil,
// such as propose nothing, and likewise the way to it.
func (of *ways) lane(s shard.Shard, t *dispatch.Terms, w *dispatch.Way) *dispatch.Lane {
	n := of.core.Process.Nodes.Node(s.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(of.Lanes, func(l *dispatch.Lane) bool { return l.Slot == s.Slot && SiteOf(l) == s.Site() })
	if i >= 0 && of.Lanes[i].Node == n {
		return of.Lanes[i]
	}
	if t == nil {
		t, w = noTerms(s.Algorithm), of.core.way(s)
	}
	l := &of.first.lane
	if of.Lanes == nil {
		of.Lanes = of.first.lanes[:0]
	} else {
		l = &dispatch.Lane{}
	}
	l.Lead(of.core.Process.Lanes, w, listener{of.core}, w.Space.Keys(of.core.ID), n, t)
	if i < 0 {
		of.Lanes = append(of.Lanes, l)
	} else { // the node turned out to be called otherwise
		l.Follows(of.Lanes[i])
		of.Lanes[i].Gone.Store(true)
		of.Lanes[i] = l
	}
	return l
}

// noTerms returns the terms of a shard that this process has no layout for: calls find what is
// there and create nothing.
func noTerms(algorithm string) *dispatch.Terms {
	a, _ := AlgorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: a}.Proposal() // of epoch 0, which is always valid
	return &dispatch.Terms{Shards: 1, Proposal: p}
}

// newRoutes makes the routes of a plan, and tells the lanes their terms. core.mu is held.
func (of *ways) newRoutes(p *Plan) *Routes {
	if len(of.Lanes) > 0 {
		of.leave(p.Layout)
		of.forget(p.Layout)
	}
	r := &of.first.routes
	if r.Plan != nil {
		r = &Routes{}
	}
	r.Plan, r.Split, r.Record = p, len(p.live) > 1, of.core.Record()
	r.Lanes = r.only[:0]
	all := make([]*dispatch.Lane, len(p.live))
	for i, s := range p.live {
		if all[i] = of.lane(s, p.terms[i], p.ways[i]); all[i] == nil {
			of.stranger(s.Node)
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

// Renew makes the routes anew, after nodes turned out to be called otherwise.
func (of *ways) Renew() {
	of.core.mu.Lock()
	defer of.core.mu.Unlock()
	old := of.core.Routes.Load()
	if old == nil {
		return
	}
	of.core.Routes.Store(of.newRoutes(old.Plan))
	of.core.callers.Freed(true)
}
