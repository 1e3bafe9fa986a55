package shardlimit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// deeds are what steps do.
var deeds = map[string]func(*world, step){
	"rest":      func(w *world, s step) { w.rest(s.For) },
	"call":      (*world).call,
	"take":      (*world).take,
	"set":       (*world).set,
	"revise":    (*world).revise,
	"rebalance": (*world).rebalance,
	"nodes":     (*world).setNodes,
	"move":      (*world).moveFamily,
	"delete":    (*world).remove,
	"reserve":   (*world).reserve,
	"refund":    (*world).refund,
	"peek":      (*world).peek,
	"suspend":   (*world).suspend,
	"kill":      (*world).kill,
	"start":     (*world).restart,
	"lose":      (*world).lose,
	"save":      (*world).save,
	"restore":   (*world).restore,
	"flush":     (*world).flush,
	"restart":   (*world).reboot,
	"clock":     (*world).clock,
	"down":      (*world).down,
	"link":      (*world).link,
	"settle":    (*world).settle,
	"free":      (*world).free,
}

// play carries the plan out and judges what came of it.
func (w *world) play() {
	for _, s := range w.plan.Steps {
		if w.scripts() > mostScripts {
			w.stat.Cut++
			break
		}
		do := deeds[s.Do]
		if do == nil {
			panic("no such step: " + s.Do)
		}
		w.stat.did(s.Do)
		if s.Mode != "" {
			w.stat.did(s.Do + " " + s.Mode)
		}
		if s.Aside {
			w.wg.Go(func() { do(w, s) })
		} else {
			do(w, s)
		}
		if s.Then > 0 {
			time.Sleep(s.Then)
		}
	}
	w.close()
	for _, l := range w.limit {
		l.judge()
	}
}

// who is the process and the limit of a step, and a handle; nil if the process cannot act.
func (w *world) who(s step) (*process, *watched, *shardlimit.Limiter) {
	p, l := w.procs[s.P%len(w.procs)], w.limit[s.L%len(w.limit)]
	if !p.works() {
		return p, l, nil
	}
	return p, l, p.handle(l)
}

// event notes something after which the limit must hold.
func (w *world) event(do string, limits ...*watched) {
	if limits == nil {
		limits = w.limit
	}
	for _, l := range limits {
		l.events = append(l.events, event{do, w.now()})
		l.fresh = false
	}
}

// call has many callers at once.
func (w *world) call(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	var wg sync.WaitGroup
	for i := range s.N {
		wg.Go(func() {
			from, size := h, max(s.Size, 1)
			switch s.Mode {
			case "tenants":
				from = h.As(fmt.Sprint("t", i), 1)
			case "sizes":
				size = 1 + int64(i)%max(s.Size, 1)
			}
			for range max(s.Times, 1) {
				w.ask(p, l, from, s.Mode, size)
				if s.For > 0 {
					time.Sleep(s.For)
				}
				if !p.works() {
					return
				}
			}
		})
	}
	wg.Wait()
}

// ask makes one call and notes how it ended.
func (w *world) ask(p *process, l *watched, h *shardlimit.Limiter, mode string, size int64) shardlimit.Decision {
	start := w.now()
	var d shardlimit.Decision
	var err error
	ctx := context.Background()
	switch mode {
	case "wait":
		if p.plan.Outage != shardlimit.FailClosed {
			return d // it does not tell whether the outage policy decided
		}
		ctx, cancel := context.WithTimeout(ctx, max(2*l.current().Per, time.Second))
		defer cancel()
		if err = h.WaitN(ctx, size); err == nil {
			d = shardlimit.Decision{Allowed: true, Granted: size}
		}
		p.record(l, start, d, err)
		return d
	case "upto":
		d, err = h.AllowUpTo(ctx, size)
	case "allow", "tenants":
		d, err = h.Allow(ctx)
	default:
		d, err = h.AllowN(ctx, min(size, h.Limit().Permits))
	}
	p.judgeAnswer(l, start, d, err)
	l.used(p, h)
	if i := p.record(l, start, d, err); i >= 0 {
		w.mu.Lock()
		if len(p.kept) < 16 {
			p.kept = append(p.kept, kept{l, i, d, h})
		}
		w.mu.Unlock()
	}
	return d
}

// take uses up what there is.
func (w *world) take(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	for range 4 {
		if d := w.ask(p, l, h, "upto", 2*l.most()); d.Granted == 0 {
			return
		}
	}
}

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
	}
	w.event("set", l)
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
		l.changed(v, limit, 5*time.Second) // unlike SetLimit it does not say when every shard has heard, or that one is not listed
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

// give tells a process which nodes there are. A draining node stays in the list.
func (w *world) give(p *process, list []int) {
	nodes := p.listed(p.plan.Nodes)
	for i, n := range p.plan.Nodes {
		nodes[i].Drain = !slices.Contains(list, n)
	}
	for _, n := range list {
		if !slices.Contains(p.plan.Nodes, n) {
			nodes = append(nodes, p.listed([]int{n})...)
			p.plan.Nodes = append(slices.Clone(p.plan.Nodes), n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.client.SetNodes(ctx, nodes)
}

// moveFamily gives all processes other nodes, as docs/operations.md asks where families are in use: all rest before and after.
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

func (w *world) reserve(s step) {
	p, l, h := w.who(s)
	if h == nil || p.plan.Outage != shardlimit.FailClosed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.current().Per+time.Second)
	defer cancel()
	sent := w.now()
	r, err := h.Reserve(ctx, min(max(s.Size, 1), h.Limit().Permits))
	if err != nil || r.Degraded() || !p.works() {
		return
	}
	received, delay := w.now(), r.Delay()
	if s.Mode == "cancel" && delay > 0 {
		time.Sleep(min(s.For, delay/2))
		_ = r.Cancel(ctx)
		return // who cancels uses nothing, even if nobody tells what came of it
	}
	w.mu.Lock()
	l.ops = append(l.ops, history.Op{Start: sent + int64(delay), End: received + int64(delay), Permits: r.Permits()})
	l.books(sent, received+int64(delay))
	w.mu.Unlock()
}

// refund gives back something of what the process got.
func (w *world) refund(s step) {
	p, _, h := w.who(s)
	if h == nil {
		return
	}
	w.mu.Lock()
	all := p.kept
	p.kept = nil
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for i, k := range all {
		if i%2 == 0 || len(k.on.ops) <= k.op || k.from.Name() != k.on.name() && !k.on.plan.Family {
			continue
		}
		w.mu.Lock()
		k.on.ops[k.op].Permits = 0 // nobody has used them
		w.mu.Unlock()
		_ = k.from.Refund(ctx, k.decision)
	}
}

func (w *world) peek(s step) {
	_, _, h := w.who(s)
	if h == nil {
		return
	}
	_, _ = h.Peek(context.Background())
}

func (w *world) suspend(s step) {
	if p := w.procs[s.P%len(w.procs)]; p.works() {
		p.suspend(s.For)
		w.trouble() // its timers go on here, so its calls time out
		w.forget()
		w.event("suspend")
	}
}

func (w *world) kill(s step) {
	if p := w.procs[s.P%len(w.procs)]; p.works() {
		p.kill()
		w.forget()
		w.event("kill")
	}
}

// restart starts a process that was killed.
func (w *world) restart(s step) {
	if p := w.procs[s.P%len(w.procs)]; p.client == nil {
		p.start()
		w.event("start")
	}
}

// lose deletes the records of layouts on a node, or all.
func (w *world) lose(s step) {
	for _, n := range w.chosen(s.Node) {
		n.server.Drop(ofARecord)
	}
	w.lost()
	w.event("lose")
}

// lost allows for what may come of records that are lost or old: for a while there can be two layouts.
func (w *world) lost() {
	w.trouble() // while who knows better is waited for, the outage policy answers
	for _, l := range w.limit {
		l.anew()
		l.doubted()
		l.unrecorded = true
	}
	w.forget()
}

// longest is the longest window of the limit so far.
func (l *watched) longest() (d time.Duration) {
	for _, v := range l.versions {
		d = max(d, v.limit.Per+v.limit.Lease)
	}
	return d
}

func (w *world) save(s step) {
	for _, n := range w.chosen(s.Node) {
		n.image = n.server.Save(every)
	}
}

func (w *world) restore(s step) {
	match := ofARecord
	if s.Mode == "node" {
		match = every
	}
	for _, n := range w.chosen(s.Node) {
		if n.image == nil {
			continue
		}
		n.server.Load(n.image, match)
	}
	for _, l := range w.limit {
		l.doubted()
		l.unrecorded = true
	}
	w.trouble()
	w.forget()
	w.event("restore")
}

// forget notes the limits that no process which lives and no sound record tells: what was in force once may be again.
func (w *world) forget() {
	for _, l := range w.limit {
		if l.unrecorded && !l.remembered() {
			for _, v := range l.versions {
				v.ended = 0
			}
		}
	}
}

// remembered reports whether a process that lives knows what is in force.
func (l *watched) remembered() bool {
	for _, p := range l.world.procs {
		if h := p.handles[l.name()]; h != nil && p.works() {
			if same(h.Limit(), l.current()) {
				return true
			}
		}
	}
	return false
}

func (w *world) flush(s step) {
	for _, n := range w.chosen(s.Node) {
		n.server.Flush()
	}
	w.forgot()
	w.event("flush")
}

func (w *world) reboot(s step) {
	for _, n := range w.chosen(s.Node) {
		n.server.Restart()
	}
	w.forgot()
	w.event("restart")
}

// forgot allows for what is documented of a node that forgot all: a share once more, and what comes of its records.
func (w *world) forgot() {
	for _, l := range w.limit {
		l.allow(0, l.most(), "a lost memory")
	}
	w.lost()
}

func (w *world) clock(s step) {
	for _, n := range w.chosen(s.Node) {
		n.server.Step(s.For)
	}
	for _, l := range w.limit {
		if s.For > 0 {
			l.allow(45*time.Second, l.most(), "a step of a clock") // what remembers that capacity went elsewhere may be forgotten early, too
		} else if l.booked > w.now() {
			l.allow(l.longest(), l.most(), "a step back with something reserved")
		}
	}
	w.event("clock")
}

func (w *world) down(s step) {
	for _, n := range w.chosen(s.Node) {
		n.downUntil = w.now() + int64(s.For)
	}
	w.trouble()
	w.event("down")
}

// link has something be wrong between a process and a node.
func (w *world) link(s step) {
	p := w.procs[s.P%len(w.procs)]
	p.links[s.Node%len(w.nodes)] = linkState{s.Mode, w.now() + int64(s.For)}
	w.trouble()
	w.event("link " + s.Mode)
}

// settle waits until whatever moves has arrived, with a call now and then, and then until nothing is in use.
func (w *world) settle(s step) {
	p, l, h := w.who(s)
	if h == nil || !p.lists() {
		return
	}
	w.wg.Wait()
	window := l.longest()
	for range 12 {
		w.rest((3*window + 60*time.Second) / 12)
		w.ask(p, l, h, "allow", 1)
	}
	w.rest(2*window + time.Second)
	l.fresh = w.scripts() < mostScripts
}

// free tells whether what is free is had: after a rest, by a process that is alone.
func (w *world) free(s step) {
	p, l, h := w.who(s)
	if h == nil || !l.fresh {
		return
	}
	w.wg.Wait()
	w.rest(max(2*l.longest(), s.For))
	if !p.works() || !p.lists() || w.scripts() > mostScripts {
		return
	}
	if p.suspended != 0 {
		return // what it learnt meanwhile, as its timers went on here, lies in its future now
	}
	at := w.now()
	w.stat.did("free, judged")
	if d := w.ask(p, l, h, "allow", 1); d.Granted == 0 && w.scripts() <= mostScripts { // else nodes answer no more
		w.found("denied", "p%d was denied the first permit of l%d after a rest of %s, at %s", p.number, l.number, max(2*l.longest(), s.For), time.Duration(at))
		return
	}
	w.rest(100 * time.Millisecond) // if the shard has told it of another limit, it has read that by then
	limit := h.Limit()
	if limit.Lease > 0 {
		return
	}
	var got atomic.Int64
	var wg sync.WaitGroup
	for range limit.Permits - 1 {
		wg.Go(func() { got.Add(w.ask(p, l, h, "allow", 1).Granted) })
	}
	wg.Wait()
	if got.Load() < limit.Permits-1 && p.near(l) && w.scripts() <= mostScripts {
		w.found("stranded", "p%d was granted %d of %d permits of l%d that were free, at %s", p.number, got.Load()+1, limit.Permits, l.number, time.Duration(at))
	}
}
