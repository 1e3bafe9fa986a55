package shardlimit_test

import "time"

// This file is about what happens to processes, nodes and the ways between them.

func (w *world) suspend(s step) {
	if p := w.procs[s.P%len(w.procs)]; p.works() {
		p.suspend(s.For, s.Mode == "stopped")
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

// lost allows for what may come of records that are lost or old: for a while there can be two
// layouts.
func (w *world) lost() {
	w.trouble() // while who knows better is waited for, the outage policy answers
	for _, l := range w.limit {
		l.anew()
		l.doubted()
		l.unrecorded = true
	}
	w.forget()
}

// shortest is the shortest window of the limit so far.
func (l *watched) shortest() time.Duration {
	least := l.current().Per
	for _, v := range l.versions {
		least = min(least, v.limit.Per)
	}
	return least
}

// longest is the longest window of the limit so far, or time that a burst takes to come back.
func (l *watched) longest() (d time.Duration) {
	for _, v := range l.versions {
		burst := time.Duration(mostAtOnce(v.limit) * int64(v.limit.Per) / v.limit.Permits)
		d = max(d, v.limit.Per+v.limit.Lease, burst)
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

// forgot allows for what is documented of a node that forgot all: a share once more, and what comes
// of its records.
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
			// what remembers that capacity went elsewhere may be forgotten early, too
			l.allow(45*time.Second, l.most(), "a step of a clock")
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
	link := &p.links[s.Node%len(w.nodes)]
	link.mode, link.until = s.Mode, w.now()+int64(s.For)
	w.trouble()
	w.event("link " + s.Mode)
}
