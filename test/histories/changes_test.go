package histories

import (
	"context"
	"fmt"
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
	limit := h.Limit()
	limit.Permits, limit.Mode, limit.Revision = s.Limit.Permits, s.Limit.Mode, max(l.revision+int64(s.N), 0)
	newest := limit.Revision > l.revision
	l.revision = max(l.revision, limit.Revision)
	if limit.Mode == shardlimit.Enforced {
		l.came = true
		l.changes(limit)
	}
	h = p.bring(l, limit)
	d := w.ask(p, l, h, "allow", 1)
	if newest && limit.Mode == shardlimit.Enforced && d.Limit == limit.Permits && !d.Degraded && p.works() &&
		limit.Revision == l.revision {
		l.newest(limit.Revision)
	}
	w.event("bring", l)
}

// bring has the process come with a limit for the key of a family. Its algorithm and window are the
// family's: that may have others when the limit comes again.
func (p *process) bring(l *watched, limit shardlimit.Limit) *shardlimit.Limiter {
	limit.Algorithm, limit.Per = 0, 0
	h := p.families[l.name()].LimiterWith("k", limit)
	p.handles[l.name()], p.brings[l.name()] = h, limit
	return h
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

// relist has one process list other nodes, and move a limit there.
func (w *world) relist(s step) {
	p, l, h := w.who(s)
	if h == nil || slices.ContainsFunc(w.limit, func(l *watched) bool { return l.plan.Family }) {
		return
	}
	w.give(p, s.List)
	if h = p.handles[l.name()]; h == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.Rebalance(ctx)
	l.relocated = true
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
	if family = p.families[l.name()]; family == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = family.Rebalance(ctx)
	w.event("place", l)
}

// give has a process end, and start again with these nodes in its list. A node that it listed
// before drains, and stays in the list.
func (w *world) give(p *process, list []int) {
	if list = w.serving(list); len(list) == 0 || !p.works() {
		return
	}
	nodes := slices.Clone(p.plan.Nodes)
	w.shrunk = w.shrunk || len(list) < 3 || len(nodes) < 3 // the records stay there until they are moved
	drains := slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return slices.Contains(list, n) })
	for _, n := range list {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	w.replace(p, nodes, drains)
}

// replace has another process take the place of one, with the same limits open. With the key of a
// family it comes with the same limit.
func (w *world) replace(p *process, nodes, drains []int) {
	var open []*watched
	brings := p.brings
	for _, l := range w.limit {
		if p.handles[l.name()] != nil {
			open = append(open, l)
		}
	}
	p.plan.Nodes, p.drains = nodes, drains
	p.kill()
	w.forget()
	if p.client != nil {
		return // it was started meanwhile
	}
	p.start()
	for _, l := range open {
		if !p.works() {
			return
		}
		p.handle(l)
		if limit, ok := brings[l.name()]; ok && p.families[l.name()] != nil {
			p.bring(l, limit)
		}
		l.again(w.now()) // it knows of no higher revision
	}
}

// move has all processes list other nodes, as docs/howto/change-nodes.md says.
func (w *world) move(s step) { w.takeOut(w.procs[s.P%len(w.procs)], s.List) }

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

// serving are the nodes of a list that were not stopped.
func (w *world) serving(list []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(i int) bool { return w.nodes[i].retired })
}

func (w *world) allWork() bool {
	return !slices.ContainsFunc(w.procs, func(p *process) bool { return !p.works() })
}

// open has a process open all limits, as a drain needs it.
func (p *process) open() bool {
	return !slices.ContainsFunc(p.world.limit, func(l *watched) bool { return p.handle(l) == nil })
}

// retire takes a node out by the book and stops it: also one that keeps records.
func (w *world) retire(s step) {
	node := s.Node % len(w.nodes)
	lead := w.procs[s.P%len(w.procs)]
	if !slices.Contains(lead.plan.Nodes, node) {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(lead.plan.Nodes), func(i int) bool { return i == node })
	if w.takeOut(lead, rest) {
		w.nodes[node].retired, w.nodes[node].downUntil = true, 1<<62
		w.stat.did("retired")
		w.event("retire")
	}
}

// takeOut has all processes list these nodes and no others, as docs/howto/change-nodes.md says. The
// rest drain, one process moves what is there, and when all is used and nothing names them, they
// are taken out. It is false if the book says that this is not done; then they go on draining.
func (w *world) takeOut(lead *process, list []int) bool {
	list = w.serving(list)
	if len(list) == 0 || !w.well() || !w.allWork() || !w.agree() || !lead.open() {
		return false
	}
	w.wg.Wait()
	for _, p := range w.procs {
		w.give(p, list)
	}
	for _, l := range w.limit {
		l.placed = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if c := lead.client; c == nil || c.Rebalance(ctx) != nil {
		return false
	}
	longest := time.Duration(0)
	for _, l := range w.limit {
		longest = max(longest, l.longest())
	}
	const parts = 16
	for range parts {
		w.rest((10*time.Second + 4*longest + longest/10) / parts)
		for _, p := range w.procs {
			for _, l := range w.limit {
				if h := p.handles[l.name()]; p.works() && h != nil {
					w.ask(p, l, h, "allow", 1)
				}
			}
		}
	}
	w.wg.Wait()
	if !w.allWork() || !w.agree() || w.over() || w.names(lead, list) {
		return false
	}
	for _, p := range w.procs {
		rest := slices.DeleteFunc(slices.Clone(p.plan.Nodes), func(i int) bool { return !slices.Contains(list, i) })
		w.replace(p, rest, nil)
	}
	w.event("move")
	return true
}

// agree reports whether all processes list the same nodes.
func (w *world) agree() bool {
	first := slices.Sorted(slices.Values(w.procs[0].plan.Nodes))
	return !slices.ContainsFunc(w.procs, func(p *process) bool {
		return !slices.Equal(first, slices.Sorted(slices.Values(p.plan.Nodes)))
	})
}

// names reports whether the state of a limit that a process has open names a node that is not
// listed, or is not settled.
func (w *world) names(p *process, list []int) bool {
	var names []string
	for _, i := range list {
		names = append(names, fmt.Sprint("n", i))
	}
	return slices.ContainsFunc(w.limit, func(l *watched) bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		h := p.handles[l.name()]
		if h == nil {
			return true
		}
		state, err := h.Peek(ctx)
		return err != nil || !state.Settled || slices.ContainsFunc(state.Shards,
			func(s shardlimit.ShardState) bool { return !slices.Contains(names, s.Node) })
	})
}

// join has every process list one more node, and one of them use it.
func (w *world) join(s step) {
	node := s.Node % len(w.nodes)
	if w.nodes[node].retired || !w.allWork() || !w.agree() || slices.Contains(w.procs[0].plan.Nodes, node) {
		return
	}
	w.wg.Wait()
	for _, l := range w.limit {
		l.placed = true
	}
	for _, p := range w.procs {
		w.give(p, append(slices.Clone(p.plan.Nodes), node))
	}
	lead := w.procs[s.P%len(w.procs)]
	if !lead.works() || !lead.open() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = lead.client.Rebalance(ctx)
	w.event("join")
}
