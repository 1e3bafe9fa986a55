package shardlimit_test

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/script"
)

// This file is about limits of which processes remember what shards granted them: windows above a
// minute. Of a loss of memory only what dead processes took may be granted again.

// remindedLimit is a limit with such a window.
func (d *drawing) remindedLimit(l shardlimit.Limit) shardlimit.Limit {
	l.Per = pick(d, 61*time.Second, 64*time.Second, 2*time.Minute, 10*time.Minute, time.Hour)
	if l.Lease > 0 {
		l.Lease = 10 * time.Second
	}
	return l
}

// losses is servers that are restarted empty while permits are in use, by processes of which some
// are idle and some die.
func (d *drawing) losses(p, l int) {
	per := d.plan.Limits[l].Limit.Per
	for p := range d.plan.Procs {
		d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 1, Times: 1})
	}
	for range 1 + d.IntN(3) {
		d.use(d.who(), l)
		d.add(step{Do: "rest", For: pick(d, time.Second, per/16, per/4)})
	}
	if d.oneIn(2) {
		d.everybody(l)
	}
	switch d.IntN(5) {
	case 0:
		d.add(step{Do: "reserve", P: p, L: l, Size: 1 + d.Int64N(4), For: per / 2, Aside: true})
	case 1:
		d.add(step{Do: "refund", P: p, L: l})
	case 2:
		d.add(step{Do: "kill", P: p})
		if d.oneIn(2) {
			d.add(step{Do: "start", P: p})
			d.use(p, l)
		}
	}
	d.add(step{Do: "rest", For: pick(d, 3*time.Second, per/8, per/2)})
	for range pick(d, 1, 1, 1, 2) {
		d.add(step{Do: "restart", Node: d.where(), Then: pick(d, 0, time.Second, per/32)})
		d.use(d.who(), l)
		d.add(step{Do: "rest", For: pick(d, time.Second, 5*time.Second, per/16)})
	}
	for range 2 {
		d.everybody(l)
		d.add(step{Do: "rest", For: pick(d, per/16+time.Second, per/4, per/2)})
	}
	d.everybody(l)
}

// forgotten notes that a node forgot all. Those who had the limit open notice it.
func (l *watched) forgotten() {
	l.aware = make(map[*shardlimit.Client]bool)
	for _, p := range l.world.procs {
		if p.client != nil && p.handles[l.name()] != nil {
			l.aware[p.client] = true
		}
	}
}

// called notes who is the first to call after that. One that does not know the limit takes it for a
// new one, if its record was lost, too, and is served at once.
func (l *watched) called(p *process) {
	if l.aware != nil {
		if !l.aware[p.client] {
			l.unnoticed = append(l.unnoticed, l.world.now())
			if p.plan.Loss == shardlimit.Quarantine {
				l.untold = append(l.untold, l.world.now())
			}
		}
		l.aware = nil
	}
}

// callsLater notes that who was to call first, since there were so many unnoticed losses, does so
// only now.
func (l *watched) callsLater(met int) {
	for i := met; i < len(l.unnoticed); i++ {
		l.unnoticed[i] = l.world.now()
	}
}

// served is how many permits were granted after a loss that went unnoticed, before processes that
// live told what they were granted, and until when that was.
func (l *watched) served(loss int64) (n, end int64) {
	end = loss
	for _, at := range l.unnoticed {
		if next := l.lossAfter(loss); at < loss || next > 0 && at >= next {
			continue
		}
		until := at + int64(max(script.Listening(l.plan.Limit.Per), 3*time.Second))
		for _, op := range l.ops {
			if op.End >= at && op.Start <= until {
				n += op.Permits
			}
		}
		end = max(end, until)
	}
	return min(n, l.most()), end
}

// metUntold reports whether nobody reminds shards after that loss.
func (l *watched) metUntold(loss int64) bool {
	next := l.lossAfter(loss)
	return slices.ContainsFunc(l.untold, func(at int64) bool { return at >= loss && (next == 0 || at < next) })
}

// lossAfter is when memory was lost next, 0 if it was not.
func (l *watched) lossAfter(loss int64) int64 {
	for _, a := range l.extra {
		if a.why == lostMemory && a.from > loss {
			return a.from
		}
	}
	return 0
}

// quiet are the steps after which a limit is where it was, and every process that lives can call.
var quiet = []string{"rest", "call", "take", "reserve", "refund", "peek", "kill", "start", "restart", "settle", "free"}

// reminds reports whether processes that live remind shards of all that they took: nothing was
// wrong but losses of memory, and the limit was known for long enough for those to be noticed.
func (l *watched) reminds() bool {
	lost := slices.IndexFunc(l.extra, func(a allowance) bool { return a.why == lostMemory })
	return lost >= 0 && !l.plan.Family && len(l.versions) > 0 && l.plan.Limit.Per > time.Minute &&
		l.extra[lost].from-l.versions[len(l.versions)-1].called > int64(3*time.Second) &&
		!slices.ContainsFunc(l.world.plan.Steps, func(s step) bool { return !slices.Contains(quiet, s.Do) }) &&
		!slices.ContainsFunc(l.world.procs, func(p *process) bool { return !p.lists() })
}

// sharpen has a loss of memory allow no more than what dead processes took, and what new ones were
// granted before it was noticed. Those that end within a window after it may end before they have
// told.
func (l *watched) sharpen() {
	if !l.reminds() {
		return
	}
	l.world.stat.did("loss, judged")
	l.doubt = doubt{} // there was one layout, and it is still in force
	window := int64(l.longest())
	for i, a := range l.extra {
		if a.why != lostMemory || l.metUntold(a.from) {
			continue
		}
		l.extra[i].permits, l.extra[i].to = l.served(a.from)
		for k, op := range l.ops {
			ended := l.world.ended[l.by[k]]
			dead := l.by[k] == nil || ended > 0 && ended < a.from+window
			if dead && op.End > a.from-window {
				l.extra[i].permits += op.Permits
			}
		}
	}
}
