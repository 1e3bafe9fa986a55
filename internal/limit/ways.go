package limit

import (
	"slices"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. A lane for which it has no shard at all is dropped once no
// call waits there: a node that falls and returns has other shards each time. c.mu is held.
func (c *Core) leave(layout shard.Layout) {
	c.Lanes = slices.DeleteFunc(c.Lanes, func(l *dispatch.Lane) bool {
		i := layout.Index(l.Site)
		if i >= 0 && i < len(layout.Live()) {
			return false
		}
		if old := l.Terms.Load(); old.Epoch != layout.Epoch {
			left := shard.Shard{Slot: l.Slot, Node: l.Site.Node, Algorithm: l.Algorithm, Life: l.Life, Start: shard.Unknown}
			if t, err := c.terms(layout, left); err == nil { // a shard of an unknown algorithm has no keys
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
func (c *Core) LaneTo(at shard.Site) *dispatch.Lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane(at, nil, nil)
}

// lane does what LaneTo does, with c.mu held. A new lane gets the terms, or, where they are nil,
// such as propose nothing, and likewise the way to it.
func (c *Core) lane(at shard.Site, t *dispatch.Terms, w *dispatch.Way) *dispatch.Lane {
	n := c.Process.Nodes.Node(at.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(c.Lanes, func(l *dispatch.Lane) bool { return l.Site == at })
	if i >= 0 && c.Lanes[i].Node == n {
		return c.Lanes[i]
	}
	if t == nil {
		t, w = noTerms(at.Algorithm), c.way(at)
	}
	l := &c.first.lane
	if c.Lanes == nil {
		c.Lanes = c.first.lanes[:0]
	} else {
		l = &dispatch.Lane{}
	}
	l.Lead(c.Process.Lanes, w, listener{c}, w.Space.Keys("", c.ID), n, t)
	if i < 0 {
		c.Lanes = append(c.Lanes, l)
	} else { // the node turned out to be called otherwise
		l.Follows(c.Lanes[i])
		c.Lanes[i].Gone.Store(true)
		c.Lanes[i] = l
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

// newRoutes makes the routes of a plan, and tells the lanes their terms. c.mu is held.
func (c *Core) newRoutes(p *Plan) *Routes {
	c.leave(p.Layout)
	r := &c.first.routes
	if r.Plan != nil {
		r = &Routes{}
	}
	r.Plan, r.Split, r.Record = p, len(p.terms) > 1, c.Record()
	r.Lanes = r.only[:0]
	all := make([]*dispatch.Lane, len(p.terms))
	for i, s := range p.Layout.Live() {
		if all[i] = c.lane(s.Site(), p.terms[i], p.ways[i]); all[i] == nil {
			if _, told := c.Process.strangers.LoadOrStore(s.Node, true); !told {
				c.Process.Config.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process "+
					"serves from the others", "limiter", c.Title(), "node", s.Node)
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
