package histories

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
)

// drawing makes a plan from a seed.
type drawing struct {
	*rand.Rand
	plan  *plan
	theme string
}

// themes are what a history is mostly about.
var themes = slices.Sorted(maps.Keys(scenes))

// draw makes the plan of a seed, about the theme that is given, or any if that is "".
func draw(seed uint64, theme string) *plan {
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 0)), plan: &plan{Seed: seed}}
	d.theme = cmp.Or(theme, themes[d.IntN(len(themes))])
	d.world()
	for range 1 + d.IntN(4) {
		d.scene()
	}
	d.clocks()
	d.end()
	d.sets()
	d.holds()
	return d.plan
}

// clocks has the clocks of the nodes of every other world differ all the time. In some, that of one
// node makes a step.
func (d *drawing) clocks() {
	p := d.plan
	if d.oneIn(2) {
		for range p.Nodes {
			skew := pick(d, 0, time.Second, 20*time.Second, 2*time.Minute, 10*time.Minute, 26*time.Hour)
			p.Skew = append(p.Skew, pick(d, skew, -skew))
		}
	}
	if d.oneIn(4) {
		per := p.Limits[0].Limit.Per
		d.insert(step{Do: "clock", Node: d.IntN(p.Nodes),
			For: pick(d, per/2, 2*per, 3*time.Minute, time.Hour, -time.Minute)})
	}
}

func pick[T any](d *drawing, all ...T) T { return all[d.IntN(len(all))] }

// oneIn is true once in n times.
func (d *drawing) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d *drawing) world() {
	p := d.plan
	p.Nodes = pick(d, 1, 2, 3, 3, 4)
	switch d.theme {
	case "drains":
		p.Nodes, p.Scripts = pick(d, 2, 3, 4, 5, 6, 8), 3000
	case "stalls":
		p.Nodes, p.Scripts = pick(d, 3, 4, 5, 8), 1500
	case "lost", "algorithms":
		p.Nodes, p.Scripts = pick(d, 3, 3, 4, 5), 2000
	case "ahead":
		p.Nodes, p.Scripts = pick(d, 3, 3, 4, 5), 6000
	case "losses":
		p.Scripts = 4000
	}
	partial := p.Nodes >= 3 && d.theme == "mixed" && d.oneIn(4)
	spare := d.theme == "drains" && p.Nodes > 2 && d.oneIn(3) // nobody lists it yet
	takes := d.ofLoss() || (d.theme == "drains" || d.theme == "stalls") && d.oneIn(2)
	outage := shardlimit.FailClosed
	if d.theme == "crowd" || d.oneIn(5) {
		outage = pick(d, shardlimit.FailOpen, shardlimit.FailLocal)
	}
	mixed := p.Seed%4 == 3 // every other process declares without takeover
	most := pick(d, time.Duration(0), time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	for range 1 + d.IntN(4) {
		proc := processPlan{Nodes: d.Perm(p.Nodes), Outage: outage, Loss: pick(d, 0, 0, shardlimit.Quarantine)}
		if spare || partial && len(p.Procs) > 0 && d.oneIn(2) {
			proc.Nodes = d.Perm(p.Nodes - 1)
		}
		for range p.Nodes {
			proc.Latency = append(proc.Latency, time.Duration(d.Int64N(int64(most)+1)))
		}
		if takes && (!mixed || len(p.Procs)%2 == 0) {
			proc.NodeTimeout = time.Second
		}
		p.Procs = append(p.Procs, proc)
	}
	keyed := d.theme == "family" || d.theme == "places"
	for range pick(d, 1, 1, 1, 2) {
		l := limitPlan{Limit: d.limit(), Family: keyed || (takes || d.theme == "stalls" || d.theme == "drains") &&
			d.oneIn(3)}
		if l.Family {
			l.Limit.Shards, l.Limit.Lease = 1, 0
		}
		p.Limits = append(p.Limits, l)
	}
}

func (d *drawing) limit() shardlimit.Limit {
	l := shardlimit.Limit{
		Permits: 10 + d.Int64N(40), Shards: pick(d, 1, 2, 2, 2, 3, 3, 4),
		Per: pick(d, 100*time.Millisecond, time.Second, time.Second, 10*time.Second, time.Minute),
	}
	if d.oneIn(4) {
		l.Permits = 50 + d.Int64N(250)
	}
	if d.oneIn(40) {
		l.Per = time.Hour
	}
	if d.oneIn(3) {
		l.Algorithm = shardlimit.SlidingCounter
	}
	if d.ofLoss() {
		l.Per = pick(d, 100*time.Millisecond, time.Second, time.Second, 5*time.Second)
		l.Shards = pick(d, 1, 2, 3, 4, 6)
	}
	if d.theme == "ahead" {
		l.Per, l.Shards = pick(d, 20*time.Second, 30*time.Second, time.Minute), pick(d, 1, 1, 2, 3)
	}
	if d.theme == "losses" {
		l.Per = pick(d, 61*time.Second, 64*time.Second, 2*time.Minute, 10*time.Minute, time.Hour)
	}
	if d.theme == "lease" || d.oneIn(15) {
		l.Algorithm, l.Lease = shardlimit.SlidingLog, pick(d, l.Per/2, l.Per, time.Second, 10*time.Second)
	}
	if d.theme == "algorithms" {
		l.Algorithm, l.Lease = pick(d, shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket), 0
		if l.Algorithm != shardlimit.FixedWindow && d.oneIn(2) {
			l.Burst = 2 + d.Int64N(2*l.Permits)
		}
	}
	return l
}

// ofLoss reports whether nodes are lost and taken over: under the sliding algorithms in one theme,
// under the others in another, and with permits reserved ahead in a third.
func (d *drawing) ofLoss() bool {
	return d.theme == "lost" || d.theme == "algorithms" || d.theme == "ahead"
}

// change is another limit in place of one.
func (d *drawing) change(l int) shardlimit.Limit {
	limit, family := d.plan.Limits[l].Limit, d.plan.Limits[l].Family
	if family {
		limit.Permits = max(limit.Permits+d.Int64N(9)-4, 2)
		return limit
	}
	switch d.IntN(6) {
	case 0:
		limit.Permits = 10 + d.Int64N(90)
	case 1:
		limit.Shards = pick(d, 1, 2, 3, 4, 8)
	case 2:
		d.otherAlgorithm(&limit)
	case 3:
		limit.Per = pick(d, 100*time.Millisecond, time.Second, 10*time.Second)
	case 4:
		limit.Permits, limit.Shards = max(limit.Permits/4, 2), pick(d, 1, 2, 4)
	case 5:
		if limit.Algorithm == shardlimit.SlidingLog {
			limit.Lease = pick(d, 0, 10*time.Millisecond, time.Second)
		}
	}
	return limit
}

// otherAlgorithm gives a limit another algorithm of those that its theme is about.
func (d *drawing) otherAlgorithm(l *shardlimit.Limit) {
	if l.Lease = 0; d.theme != "algorithms" {
		l.Algorithm = 1 - l.Algorithm
		return
	}
	l.Algorithm, l.Burst = pick(d, shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket), 0
}

func (d *drawing) add(s ...step) { d.plan.Steps = append(d.plan.Steps, s...) }

// maybe adds steps once in n times.
func (d *drawing) maybe(n int, s ...step) {
	if d.oneIn(n) {
		d.add(s...)
	}
}

// insert adds a step anywhere.
func (d *drawing) insert(s step) {
	d.plan.Steps = slices.Insert(d.plan.Steps, d.IntN(len(d.plan.Steps)+1), s)
}

func (d *drawing) who() int   { return d.IntN(len(d.plan.Procs)) }
func (d *drawing) which() int { return d.IntN(len(d.plan.Limits)) }

// a node, or all
func (d *drawing) where() int {
	if d.oneIn(2) {
		return -1
	}
	return d.IntN(d.plan.Nodes)
}

// pause is how long nobody does anything.
func (d *drawing) pause() time.Duration {
	per := d.plan.Limits[0].Limit.Per
	long := 61*time.Second + 2*per + time.Duration(d.Int64N(int64(2*time.Second)))
	return pick(d, per/4, per, per, 2*per, 16*time.Second, long, long, time.Duration(1+d.IntN(3))*time.Hour)
}

// use is a few calls.
func (d *drawing) use(p, l int) {
	per, size := d.plan.Limits[l].Limit.Per, 1+d.Int64N(d.plan.Limits[l].Limit.Permits)
	s := pick(d, step{Do: "take"}, step{Do: "take"},
		step{Do: "call", Mode: "allow", N: 1 + d.IntN(4), Times: 1 + d.IntN(8), For: per / 16},
		step{Do: "call", Mode: "tenants", N: 40 + d.IntN(120), Times: 1},
		step{Do: "call", Mode: "n", N: 1 + d.IntN(6), Times: 1 + d.IntN(3), Size: size, For: per / 8},
		step{Do: "call", Mode: "upto", N: 1 + d.IntN(3), Times: 1 + d.IntN(6), Size: size, For: per / 8},
		step{Do: "call", Mode: "wait", N: 1 + d.IntN(6), Times: 1 + d.IntN(3), Size: 1 + d.Int64N(3),
			Aside: d.oneIn(2)})
	s.P, s.L = p, l
	d.add(s)
}

// everybody has all processes take what they can, each after another.
func (d *drawing) everybody(l int) {
	for _, p := range d.Perm(len(d.plan.Procs)) {
		if d.oneIn(4) {
			d.use(p, l)
		} else {
			d.add(step{Do: "take", P: p, L: l})
		}
	}
}
