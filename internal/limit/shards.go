package limit

import (
	"slices"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// leave gives shards that are not live in the layout terms that claim nothing, for late calls. One
// that the layout does not have at all is dropped once no call waits there: a node that falls and
// returns has other shards each time. c.mu is held.
func (c recorded) leave(layout shard.Layout) {
	c.Shards = slices.DeleteFunc(c.Shards, func(sh *dispatch.Shard) bool {
		i := layout.Index(sh.Site)
		if i >= 0 && i < len(layout.Live()) {
			return false
		}
		if old := sh.Terms.Load(); old.Epoch != layout.Epoch {
			left := shard.Shard{Slot: sh.Slot, Node: sh.Site.Node, Algorithm: sh.Algorithm,
				Incarnation: sh.Incarnation, Start: shard.Unknown}
			if t, err := c.terms(layout, left); err == nil { // a shard of an unknown algorithm has no keys
				if t.Fence = old.Fence; sh.Incarnation == "" {
					t.Fence = nil
				}
				sh.Terms.Store(t)
			}
		}
		gone := i < 0 && sh.Unanswered.Load() == 0
		if gone {
			sh.Gone.Store(true)
		}
		return gone
	})
}

// ShardAt returns the shard at a site; nil if its node is not configured.
func (c *Core) ShardAt(at shard.Site) *dispatch.Shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shardAt(at, nil, nil)
}

// shardAt does what ShardAt does, with c.mu held. A new shard gets the terms, or, where they are
// nil, such as propose nothing, and likewise its home.
func (c *Core) shardAt(at shard.Site, t *dispatch.Terms, home *dispatch.Home) *dispatch.Shard {
	n := c.Process.Nodes.Node(at.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(c.Shards, func(sh *dispatch.Shard) bool { return sh.Site == at })
	if i >= 0 && c.Shards[i].Node == n {
		return c.Shards[i]
	}
	if t == nil {
		t, home = noTerms(at.Algorithm), c.home(at)
	}
	sh := &c.first.shard
	if c.Shards == nil {
		c.Shards = c.first.shards[:0]
	} else {
		sh = &dispatch.Shard{}
	}
	sh.Init(c.Process.Dispatch, home, recorded{c}, home.Space.Keys("", c.ID), n, t)
	if i < 0 {
		c.Shards = append(c.Shards, sh)
	} else { // the node turned out to be called otherwise
		sh.Replaces(c.Shards[i])
		c.Shards[i].Gone.Store(true)
		c.Shards[i] = sh
	}
	return sh
}

// noTerms returns the terms of a shard that this process has no layout for: calls find what is
// there and create nothing.
func noTerms(algorithm string) *dispatch.Terms {
	a, _ := AlgorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: a}.Proposal() // of epoch 0, which is always valid
	return &dispatch.Terms{Shards: 1, Proposal: p}
}

// newRoutes makes the routes of a plan, and tells the shards their terms. c.mu is held.
func (c recorded) newRoutes(p *Plan) *Routes {
	c.leave(p.Layout)
	r := &c.first.routes
	if r.Plan != nil {
		r = &Routes{}
	}
	r.Plan, r.Split, r.Record = p, len(p.terms) > 1, c.Record()
	r.Shards = r.only[:0]
	all := make([]*dispatch.Shard, len(p.terms))
	for i, s := range p.Layout.Live() {
		if all[i] = c.shardAt(s.Site(), p.terms[i], p.homes[i]); all[i] == nil {
			if _, told := c.Process.strangers.LoadOrStore(s.Node, true); !told {
				c.Process.Config.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process "+
					"serves from the others", "limiter", c.Title(), "node", s.Node)
			}
			continue
		}
		all[i].Terms.Store(p.terms[i])
		r.Shards = append(r.Shards, all[i])
	}
	if r.Order = r.Shards; r.Split {
		r.Order = nil
		for _, i := range p.order {
			if all[i] != nil {
				r.Order = append(r.Order, all[i])
			}
		}
		for _, sh := range r.Shards {
			sh.Others.Store(&r.Shards)
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
	c.Routes.Store(recorded{c}.newRoutes(old.Plan))
	c.callers.Freed(true)
}
