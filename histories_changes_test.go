package shardlimit_test

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
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

// bring has a process come with a limit for the key of a family from now on: of a higher revision
// than any before, of the same, or of an older one.
func (w *world) bring(s step) {
	p, l, h := w.who(s)
	f := p.families[l.name()]
	if h == nil || f == nil {
		return
	}
	limit := h.Limit() // it has its family's algorithm
	limit.Permits, limit.Mode, limit.Revision = s.Limit.Permits, s.Limit.Mode, max(l.revision+int64(s.N), 0)
	newest := limit.Revision > l.revision
	l.revision = max(l.revision, limit.Revision)
	h = f.LimiterWith("k", limit)
	if limit.Mode == shardlimit.Enforced {
		l.came = true
		l.changes(limit)
	}
	p.handles[l.name()] = h
	d := w.ask(p, l, h, "allow", 1)
	if newest && limit.Mode == shardlimit.Enforced && d.Limit == limit.Permits && !d.Degraded && p.works() &&
		limit.Revision == l.revision {
		l.newest(limit.Revision)
	}
	w.event("bring", l)
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
	l.revision = max(l.revision, limit.Revision)
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
