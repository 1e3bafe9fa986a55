package histories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/node"
)

// This file is about what happens to processes, nodes and the ways between them.

// suspend has a process stand still: its monotonic clock does, too, and if it is stopped by a
// hypervisor all of its clocks.
func (w *world) suspend(s step) {
	p := w.procs[s.P%len(w.procs)]
	if !p.works() {
		return
	}
	p.suspended = w.now() + int64(s.For+time.Microsecond) // it knows of the suspension before it goes on
	client, ended, stands := p.client, p.ended, limittest.Suspend
	if s.Mode == "stopped" {
		stands = limittest.Stop
	}
	w.wg.Go(func() {
		select {
		case <-time.After(s.For):
			stands(client, s.For)
		case <-ended:
		}
	})
	w.trouble() // its timers go on here, so its calls time out
	w.forget()
	w.event("suspend")
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

// lose has a node, or all, lose the records of layouts, or all they have, or that by a restart.
func (w *world) lose(s step) {
	for _, n := range w.chosen(s) {
		switch s.Do {
		case "lose":
			n.server.Drop(limittest.IsOfARecord)
		case "flush":
			n.server.Flush()
			w.flushed = true
		case "restart":
			n.server.Restart()
		}
		w.forgetful[n] = true
	}
	if s.Do == "lose" {
		w.lost()
	} else {
		w.forgot()
		w.regained(s.Do == "flush")
	}
	w.event(s.Do)
}

// lost allows for what may come of records that are lost or old: for a while there can be two
// layouts. Where three nodes or more keep the records, one of them that forgets changes nothing.
func (w *world) lost() {
	w.trouble() // while who knows better is waited for, the outage policy answers
	if len(w.forgetful) < 2 && w.many() {
		return
	}
	for _, l := range w.limit {
		l.anew()
		l.doubted()
		l.unrecorded = true
	}
	w.forget()
}

// reborn allows for a shard that is forgotten soon after a change, while no majority of the records
// can be read: a process that relies on the layout before has it begin as it was. Of a flush the
// server tells nothing, so it is no loss of memory for who had not used the shard just before. Of
// another loss a process that resumes does not ask.
func (w *world) reborn() {
	unread := len(w.forgetful)
	for _, n := range w.nodes {
		if n.downUntil > w.now() && !w.forgetful[n] {
			unread++
		}
	}
	if unread < 2 {
		return
	}
	for _, l := range w.limit {
		for _, v := range l.versions {
			if w.relied(v) && (w.flushed || w.resumes(v)) {
				v.ended = 0
			}
		}
	}
}

// resumes reports whether a process begins a shard anew that was lost under this version.
func (w *world) resumes(v *version) bool {
	return v.limit.Per > time.Minute && slices.ContainsFunc(w.procs, func(p *process) bool {
		return p.plan.Loss != shardlimit.Quarantine
	})
}

// relied reports whether a version ended so lately that processes may still rely on it.
func (w *world) relied(v *version) bool {
	return v.ended > 0 && w.now()-v.ended < int64(node.Relied+time.Second)
}

// longest is the longest window of the limit so far, or time that a burst takes to come back.
func (l *watched) longest() (d time.Duration) {
	for _, v := range l.versions {
		d = max(d, v.limit.Per+v.limit.Lease, fills(v.limit))
	}
	return d
}

func (w *world) save(s step) {
	for _, n := range w.chosen(s) {
		n.image = n.server.Save(every)
	}
}

// restore starts a node again with what it had saved: with all of that, or with the records.
func (w *world) restore(s step) {
	match := limittest.IsOfARecord
	if s.Mode == "node" {
		match = every
	}
	for _, n := range w.chosen(s) {
		if n.image == nil {
			continue
		}
		now := n.server.Save(every)
		n.server.Restart()
		n.server.Load(now, every)
		n.server.Load(n.image, match)
		w.forgetful[n] = true
	}
	w.trouble()
	if len(w.forgetful) > 1 || !w.many() || s.Mode == "node" { // then shards are as they were, too
		for _, l := range w.limit {
			l.doubted()
			l.unrecorded = true
		}
		w.forget()
	}
	w.event("restore")
}

// many reports whether no node is the only one that may keep records: however the nodes were drawn
// for the processes, each lists three that neither drain nor were taken over.
func (w *world) many() bool {
	lost := 0
	for _, n := range w.nodes {
		if w.plan.takesOver() && n.downUntil > 0 && w.now()-n.downUntil < int64(time.Minute) {
			lost++
		}
	}
	return !slices.ContainsFunc(w.procs, func(p *process) bool { return len(p.plan.Nodes)-len(p.drains)-lost < 3 }) &&
		!w.shrunk
}

// forget notes the limits that no process which lives and no sound record tells: what was in force
// once may be again.
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
	return slices.ContainsFunc(l.world.procs, func(p *process) bool {
		h := p.has[l.name()].limit
		return h != nil && p.works() && limittest.Same(h.Limit(), l.current())
	})
}

// regained allows for shares that were given up in a change, which is forgotten: those under a
// version on which processes may still rely and, of a node that restarts, resume.
func (w *world) regained(flushed bool) {
	for _, l := range w.limit {
		if slices.ContainsFunc(l.versions, func(v *version) bool { return w.relied(v) && (flushed || w.resumes(v)) }) {
			l.allow(node.Relied, l.most(), "a share that was given up, which is forgotten")
			l.regained = true
		}
	}
	w.reborn()
}

// idle has nothing happen for a time. Whoever had not heard of a change by then uses such a share
// until it has read the record.
func (w *world) idle(s step) {
	w.rest(s.For)
	for _, l := range w.limit {
		if l.regained && s.For >= node.Relied {
			l.allow(l.longest()+time.Second, l.most(), "a share that was given up, for who has not heard of that")
		}
	}
}

// forgot allows for what is documented of a node that forgot all: a share once more, beside what
// was reserved there, or was leased where processes resume, and what comes of its records.
// A limit that is some seconds old counts as new.
func (w *world) forgot() {
	for _, l := range w.limit {
		lasts, anew := max(l.booked-w.now(), 0), l.most()
		for _, v := range l.versions {
			if w.resumes(v) {
				lasts = max(lasts, int64(v.limit.Lease))
			}
		}
		if len(l.versions) > 0 && w.now()-l.versions[0].called < int64(3*time.Second) {
			lasts = max(lasts, int64(l.longest()))
			anew *= int64(len(l.versions)) // a process that has not heard of a change begins the shard of before
			l.regained = l.regained || len(l.versions) > 1
		}
		l.allow(time.Duration(lasts), anew, "a lost memory")
	}
	w.lost()
}

// clock has the clock of a node, or of all, make a step. One that has nothing of a limit but its
// record, beside two others that keep it, frees nothing.
func (w *world) clock(s step) {
	for _, n := range w.chosen(s) {
		for _, l := range w.limit {
			l.stepped = l.stepped || n.has(l)
		}
		n.server.Step(s.For)
		w.stepped[n] = true
	}
	w.trouble() // what carries the time of that node is refused once, or comes late
	for _, l := range w.limit {
		if s.For > 0 {
			if len(w.stepped) == 1 && !l.stepped && w.many() {
				w.did("clock elsewhere")
				continue
			}
			// What remembers that capacity went elsewhere may be forgotten early, too. Permits that
			// are held in advance are used beside what was freed until their lease ends.
			held := time.Duration(0)
			for _, v := range l.versions {
				held = max(held, v.limit.Lease)
			}
			l.allow(max(45*time.Second, held, time.Duration(l.booked-w.now())), l.most(), "a step of a clock")
		} else if l.booked > w.now() {
			l.allow(l.longest(), l.most(), "a step back with something reserved")
		}
	}
	w.event("clock")
}

func (w *world) down(s step) {
	for _, n := range w.chosen(s) {
		n.downUntil = max(n.downUntil, w.now()+int64(s.For))
	}
	w.trouble()
	w.reborn()
	w.event("down")
}

// link has something be wrong between a process and a node.
func (w *world) link(s step) {
	p := w.procs[s.P%len(w.procs)]
	link := &p.links[s.Node%len(w.nodes)]
	link.mode, link.until = s.Mode, w.now()+int64(s.For)
	w.trouble()
	w.event("link " + s.Mode)
}

// has reports whether a node has something of a limit beside records.
func (n *worldNode) has(l *watched) bool {
	return slices.ContainsFunc(n.server.Keys(), func(key string) bool {
		return !limittest.IsOfARecord(key) && strings.Contains(key, l.name())
	})
}

// stall has one node answer nobody. While that lasts, limits and keys that it has nothing of are
// served, however new they are, if it was well until then and others keep the records, too.
func (w *world) stall(s step) {
	node := s.Node % len(w.nodes)
	p, l, h := w.who(s)
	well := w.well() && w.many() && h != nil && p.lists()
	var aside []*shardlimit.Limiter
	for i := 0; i < 12 && well; i++ {
		if f := p.has[l.name()].family; f != nil {
			h = f.Limiter(fmt.Sprint("stall ", w.now(), " ", i))
		}
		if w.leaves(h, node) && p.works() {
			aside = append(aside, h)
		}
	}
	well = well && p.near(l)
	w.trouble()
	w.event("stall")
	for _, p := range w.procs {
		p.links[node].mode, p.links[node].until = "stuck", w.now()+int64(s.For)
	}
	for _, h := range aside {
		w.rest(s.For / time.Duration(len(aside)+1))
		if !well || !p.works() || w.over() || w.now() > p.links[node].until {
			return
		}
		w.did("stall, judged")
		start := w.now()
		d, err := h.Allow(context.Background())
		if l.plan.Family { // the key is not watched
			p.judgeAnswer(l, start, d, err)
		} else {
			p.record(l, start, d, err)
		}
		if (d.Degraded || err != nil) && p.works() && !l.moves() {
			w.found("outage", "p%d was answered by the outage policy while node %d stalled, on which there is nothing "+
				"of l%d, at %s: %v", p.number, node, l.number, time.Duration(start), err)
		}
	}
}

// declare has one node be down, and a process declare a limit that is new. That is served, also
// after other nodes were taken out and stopped that kept records.
func (w *world) declare(s step) {
	p, l, h := w.who(s)
	well := w.well() && w.many() && w.agree() && h != nil && p.lists() && p.near(l) && !w.chosen(s)[0].retired
	w.down(s)
	if !well {
		return
	}
	w.did("declare, judged")
	if slices.ContainsFunc(w.nodes, func(n *worldNode) bool { return n.retired }) {
		w.did("declare, after a node was taken out")
	}
	ctx, limit := w.within(3*time.Second), shardlimit.PerMinute(600)
	limit.Shards = len(w.nodes)
	h, err := p.client.Limiter(ctx, fmt.Sprint("new ", w.now()), limit)
	var d shardlimit.Decision
	if err == nil && p.works() {
		d, err = h.Allow(ctx)
	}
	if (d.Degraded || err != nil) && p.works() {
		w.found("outage", "a new limit was not served by p%d while node %d was down, at %s: %v", p.number,
			s.Node%len(w.nodes), time.Duration(w.now()), err)
	}
}
