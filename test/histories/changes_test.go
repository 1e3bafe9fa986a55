package histories

import (
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
	ctx, change := w.within(5*time.Second), h.SetLimit
	if f := p.has[l.name()].family; f != nil {
		change = f.SetLimit
	}
	if err := change(ctx, s.Limit); err == nil && p.works() {
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
	if h == nil || p.has[l.name()].family == nil {
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
	d := w.ask(p, l, p.bring(l, limit), "allow", 1)
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
	family := p.has[l.name()].family
	h := family.LimiterWith("k", limit)
	p.has[l.name()] = opened{h, family, &limit}
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
	ctx := w.within(5 * time.Second)
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

// place has one process list other nodes, and move a limit or the keys of a family there.
func (w *world) place(s step) {
	p, l, h := w.who(s)
	family := func(l *watched) bool { return l.plan.Family }
	if h == nil || !l.plan.Family && slices.ContainsFunc(w.limit, family) {
		return
	}
	l.placed = l.placed || l.plan.Family
	w.give(p, s.List)
	has := p.has[l.name()]
	if has.limit == nil {
		return
	}
	rebalance := has.limit.Rebalance
	if has.family != nil {
		rebalance = has.family.Rebalance
	}
	_ = rebalance(w.within(5 * time.Second))
	l.relocated = l.relocated || !l.plan.Family
	w.event(s.Do, l)
}

// give has a process end, and start again with these nodes in its list. A node that it listed
// before drains, and stays in the list.
func (w *world) give(p *process, list []int) {
	if list = w.serving(list); len(list) == 0 || !p.works() {
		return
	}
	nodes := p.plan.Nodes
	w.shrunk = w.shrunk || len(list) < 3 || len(nodes) < 3 // the records stay there until they are moved
	drains := but(nodes, list)
	w.replace(p, append(slices.Clone(nodes), but(list, nodes)...), drains)
}

// but are numbers that are not among others.
func but(numbers, others []int) []int {
	return slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return slices.Contains(others, n) })
}

// replace has another process take the place of one, with the same limits open. With the key of a
// family it comes with the same limit.
func (w *world) replace(p *process, nodes, drains []int) {
	had := p.has
	p.plan.Nodes, p.drains = nodes, drains
	p.kill()
	w.forget()
	if p.client != nil {
		return // it was started meanwhile
	}
	p.start()
	for _, l := range w.limit {
		if had[l.name()].limit == nil {
			continue
		}
		if !p.works() {
			return
		}
		p.handle(l)
		if limit := had[l.name()].brings; limit != nil && p.has[l.name()].family != nil {
			p.bring(l, *limit)
		}
		l.again(w.now()) // it knows of no higher revision
	}
}

// remove deletes a limit. Others may still call, and whatever they get does not count.
func (w *world) remove(s step) {
	_, l, h := w.who(s)
	if h == nil || l.plan.Family {
		return
	}
	w.wg.Wait()
	ctx := w.within(5 * time.Second)
	_ = h.Delete(ctx)
	for _, p := range w.procs {
		if old := p.has[l.name()].limit; old != nil && p.works() {
			_, _ = old.Allow(ctx)
			_, _ = old.Peek(ctx)
		}
	}
	l.judge()
	*l = watched{world: w, number: l.number, plan: l.plan, deleted: l.deleted + 1,
		events: map[string]int64{"delete": w.now()}}
}

// serving are the nodes of a list that were not stopped.
func (w *world) serving(list []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(i int) bool { return w.nodes[i].retired })
}

func (w *world) allWork() bool {
	return !slices.ContainsFunc(w.procs, func(p *process) bool { return !p.works() })
}

// agree reports whether all processes list the same nodes.
func (w *world) agree() bool {
	first := w.procs[0].plan.Nodes
	return !slices.ContainsFunc(w.procs, func(p *process) bool {
		return len(but(p.plan.Nodes, first))+len(but(first, p.plan.Nodes)) > 0
	})
}

// takeOut has all processes list other nodes, or all but one that is stopped then, as
// docs/howto/change-nodes.md says. Those that they listed before drain, one process moves what is
// there, and when all is used and nothing is left, they are taken out. If the book says that this
// is not done, they go on draining.
func (w *world) takeOut(s step) {
	lead, list := w.procs[s.P%len(w.procs)], w.serving(s.List)
	if s.Do == "retire" {
		list = w.serving(but(lead.plan.Nodes, []int{s.Node % len(w.nodes)}))
	}
	if len(list) == 0 || len(list) == len(lead.plan.Nodes) && s.Do == "retire" || !w.well() || !w.allWork() ||
		!w.agree() || !w.spread(lead, list) {
		return
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
				if h := p.has[l.name()].limit; p.works() && h != nil {
					w.ask(p, l, h, "allow", 1)
				}
			}
		}
	}
	w.wg.Wait()
	out := but(lead.plan.Nodes, list)
	if !w.allWork() || !w.agree() || w.over() || slices.ContainsFunc(w.limit, func(l *watched) bool {
		return !w.leaves(lead.has[l.name()].limit, out...)
	}) {
		return
	}
	for _, p := range w.procs {
		w.replace(p, but(p.plan.Nodes, out), nil)
	}
	if node := w.nodes[s.Node%len(w.nodes)]; s.Do == "retire" {
		node.retired, node.downUntil = true, 1<<62
		w.did("retired")
	}
	w.event(s.Do)
}

// spread has all processes list these nodes, as others drain, and one of them move there what they
// have. It is false if that one cannot. A drain needs all limits open.
func (w *world) spread(lead *process, list []int) (done bool) {
	w.wg.Wait()
	for _, l := range w.limit {
		l.placed = true
	}
	for _, p := range w.procs {
		w.give(p, list)
	}
	for _, l := range w.limit {
		if !lead.works() || lead.handle(l) == nil {
			return false
		}
	}
	return lead.works() && lead.client.Rebalance(w.within(5*time.Second)) == nil
}

// leaves reports whether a limit has settled with nothing on these nodes.
func (w *world) leaves(h *shardlimit.Limiter, nodes ...int) bool {
	if h == nil {
		return false
	}
	state, err := h.Peek(w.within(5 * time.Second))
	return err == nil && state.Settled && !slices.ContainsFunc(state.Shards, func(s shardlimit.ShardState) bool {
		return slices.ContainsFunc(nodes, func(i int) bool { return s.Node == fmt.Sprint("n", i) })
	})
}

// join has every process list one more node, and one of them use it.
func (w *world) join(s step) {
	node, listed := s.Node%len(w.nodes), w.procs[0].plan.Nodes
	if !w.nodes[node].retired && w.allWork() && w.agree() && !slices.Contains(listed, node) {
		w.spread(w.procs[s.P%len(w.procs)], append(slices.Clone(listed), node))
		w.event("join")
	}
}
