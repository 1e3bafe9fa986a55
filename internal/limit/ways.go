package limit

import (
	"slices"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// ways are the lanes of a limit to its shards. core.mu guards them.
type ways struct {
	core  *Core
	Lanes []*dispatch.Lane // every lane ever made, so that its memory survives a new layout

	// The first ones, in one piece with the core: a key seldom has others.
	first struct {
		routes Routes
		lane   dispatch.Lane
		lanes  [1]*dispatch.Lane
	}
}

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. A lane for which it has no shard at all is dropped once no
// call waits there: a node that falls and returns has other shards each time. core.mu is held.
func (of *ways) leave(layout shard.Layout) {
	of.Lanes = slices.DeleteFunc(of.Lanes, func(l *dispatch.Lane) bool {
		i := layout.Index(l.Site)
		if i >= 0 && i < len(layout.Live()) {
			return false
		}
		if old := l.Terms.Load(); old.Epoch != layout.Epoch {
			left := shard.Shard{Slot: l.Slot, Node: l.Site.Node, Algorithm: l.Algorithm, Life: l.Life, Start: shard.Unknown}
			if t, err := of.core.terms(layout, left); err == nil { // a shard of an unknown algorithm has no keys
				if t.Fence = old.Fence; l.Life == "" {
					t.Fence = nil
				}
				l.Terms.Store(t)
			}
		}
		gone := i < 0 && l.Waiting.Load() == 0
		if gone {
			l.Gone.Store(true)
		}
		return gone
	})
}

// LaneTo returns the lane to a shard, nil if its node is not configured.
func (of *ways) LaneTo(at shard.Site) *dispatch.Lane {
	of.core.mu.Lock()
	defer of.core.mu.Unlock()
	return of.lane(at, nil, nil)
}

// lane does what LaneTo does, with core.mu held. A new lane gets the terms, or, where they are nil,
// such as propose nothing, and likewise the way to it.
func (of *ways) lane(at shard.Site, t *dispatch.Terms, w *dispatch.Way) *dispatch.Lane {
	n := of.core.Process.Nodes.Node(at.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(of.Lanes, func(l *dispatch.Lane) bool { return l.Site == at })
	if i >= 0 && of.Lanes[i].Node == n {
		return of.Lanes[i]
	}
	if t == nil {
		t, w = noTerms(at.Algorithm), of.core.way(at)
	}
	l := &of.first.lane
	if of.Lanes == nil {
		of.Lanes = of.first.lanes[:0]
	} else {
		l = &dispatch.Lane{}
	}
	l.Lead(of.core.Process.Lanes, w, listener{of.core}, w.Space.Keys("", of.core.ID), n, t)
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
	of.leave(p.Layout)
	r := &of.first.routes
	if r.Plan != nil {
		r = &Routes{}
	}
	r.Plan, r.Split, r.Record = p, len(p.terms) > 1, of.core.Record()
	r.Lanes = r.only[:0]
	all := make([]*dispatch.Lane, len(p.terms))
	for i, s := range p.Layout.Live() {
		if all[i] = of.lane(s.Site(), p.terms[i], p.ways[i]); all[i] == nil {
			if _, told := of.core.Process.strangers.LoadOrStore(s.Node, true); !told {
				of.core.Process.Config.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process "+
					"serves from the others", "limiter", of.core.Title(), "node", s.Node)
			}
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
		for _, l := range r.Lanes {
			l.Others.Store(&r.Lanes)
		}
	}
	return r
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
