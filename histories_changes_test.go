package shardlimit_test

import (
	"context"
	"slices"
	"time"
)

// This file is about what changes a limit, and who carries it.

func (w *world) set(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	v := l.changes(s.Limit)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	if f := p.families[l.name()]; f != nil {
		err = f.SetLimit(ctx, s.Limit)
	} else {
		err = h.SetLimit(ctx, s.Limit)
	}
	if err == nil && p.works() {
		l.changed(v, h.Limit(), 0)
	} else {
		l.shortens(v, 5*time.Minute) // it may be in force in part, or be once nodes are back
	}
	w.event("set", l)
}

// own gives the key of a family a limit of its own.
func (w *world) own(s step) {
	p, l, h := w.who(s)
	if h == nil || !l.plan.Family {
		return
	}
	limit := h.Limit() // it has its family's algorithm
	limit.Permits, limit.Shards, limit.Revision = s.Limit.Permits, 0, 0
	l.own, l.owned = nil, true
	l.own = l.changes(limit)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	is, alone := l.own, l.pending == 0
	l.pending++
	if h.SetLimit(ctx, limit) == nil && p.works() && alone && is == l.own { // else another one may have won
		if h.Limit().Permits != limit.Permits {
			l.world.found("own", "l%d: a key has %v after SetLimit(%v)", l.number, h.Limit(), limit)
		}
		l.ownOnly(is)
	}
	l.pending--
	w.event("own", l)
}

// unown gives it the limit of its family again.
func (w *world) unown(s step) {
	p, l, h := w.who(s)
	f := p.families[l.name()]
	if h == nil || l.own == nil || f == nil {
		return
	}
	l.own = nil
	l.changes(f.Limit())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.pending++
	_ = h.UnsetLimit(ctx)
	l.pending--
	w.event("unown", l)
}

// revise is a process that starts with code of a higher revision.
func (w *world) revise(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	limit := s.Limit
	for _, v := range l.versions {
		limit.Revision = max(limit.Revision, v.limit.Revision+1)
	}
	v := l.changes(limit)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	if l.plan.Family {
		_, err = p.client.Family(ctx, l.name(), limit)
	} else {
		_, err = p.client.Limiter(ctx, l.name(), limit)
	}
	if err == nil && w.well() && p.works() && p.lists() && h.Limit() == limit {
		// unlike SetLimit it does not say when every shard has heard, or that one is not listed
		l.changed(v, limit, 5*time.Second)
	} else {
		l.shortens(v, 5*time.Minute) // it may be in force in part, or be once nodes are back
	}
	w.event("revise", l)
}

func (w *world) rebalance(s step) {
	_, l, h := w.who(s)
	if h == nil || l.plan.Family {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.Rebalance(ctx)
	w.event("rebalance", l)
}

// setNodes changes the nodes of one process, which then moves its limits.
func (w *world) setNodes(s step) {
	p, l, h := w.who(s)
	if h == nil || slices.ContainsFunc(w.limit, func(l *watched) bool { return l.plan.Family }) {
		return
	}
	w.give(p, s.List)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.Rebalance(ctx)
	w.event("nodes", l)
}

// place has a process arrange the keys of a family over other nodes.
func (w *world) place(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	family := p.families[l.name()]
	if family == nil {
		return // its life has ended meanwhile
	}
	l.placed = true
	w.give(p, s.List)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = family.Rebalance(ctx)
	w.event("place", l)
}

// give tells a process which nodes there are. A draining node stays in the list.
func (w *world) give(p *process, list []int) {
	nodes := p.listed(p.plan.Nodes)
	p.drains = nil
	for i, n := range p.plan.Nodes {
		if nodes[i].Drain = !slices.Contains(list, n); nodes[i].Drain {
			p.drains = append(p.drains, n)
		}
	}
	for _, n := range list {
		if !slices.Contains(p.plan.Nodes, n) {
			nodes = append(nodes, p.listed([]int{n})...)
			p.plan.Nodes = append(slices.Clone(p.plan.Nodes), n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c := p.client; c != nil {
		_ = c.SetNodes(ctx, nodes)
	}
}

// moveFamily gives all processes other nodes, as docs/howto/change-nodes.md asks where families are
// in use: all rest before and after.
func (w *world) moveFamily(s step) {
	w.wg.Wait()
	for _, p := range w.procs {
		if !p.works() {
			return
		}
	}
	pause := time.Duration(0)
	for _, l := range w.limit {
		for _, v := range l.versions {
			pause = max(pause, 4*v.limit.Per)
		}
	}
	time.Sleep(pause)
	for _, l := range w.limit {
		l.placed = true
	}
	for _, p := range w.procs {
		p.plan.Nodes = slices.Clone(s.List)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = p.client.SetNodes(ctx, p.listed(s.List))
		cancel()
	}
	time.Sleep(pause)
	w.event("move")
}

// remove deletes a limit. Others may still call, and whatever they get does not count.
func (w *world) remove(s step) {
	_, l, h := w.who(s)
	if h == nil || l.plan.Family {
		return
	}
	w.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.Delete(ctx)
	for _, p := range w.procs {
		if old := p.handles[l.name()]; old != nil && p.works() {
			_, _ = old.Allow(ctx)
			_, _ = old.Peek(ctx)
		}
	}
	l.judge()
	*l = watched{world: w, number: l.number, plan: l.plan, deleted: l.deleted + 1, events: []event{{"delete", w.now()}}}
}
