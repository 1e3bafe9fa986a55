package shardlimit_test

import (
	"cmp"
	"math/rand/v2"
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
var themes = []string{"mixed", "change", "idle", "suspend", "records", "crowd", "family", "lease", "faults", "rest"}

// draw makes the plan of a seed, about the theme that is given, or any if that is "".
func draw(seed uint64, theme string) *plan {
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 0)), plan: &plan{Seed: seed}}
	d.theme = cmp.Or(theme, themes[d.IntN(len(themes))])
	d.world()
	for range 1 + d.IntN(4) {
		d.scene()
	}
	d.end()
	return d.plan
}

func pick[T any](d *drawing, all ...T) T { return all[d.IntN(len(all))] }

// oneIn is true once in n times.
func (d *drawing) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d *drawing) world() {
	p := d.plan
	p.Nodes = pick(d, 1, 2, 2, 3)
	partial := p.Nodes == 3 && d.theme == "mixed" && d.oneIn(4)
	outage := shardlimit.FailClosed
	if d.theme == "crowd" || d.oneIn(5) {
		outage = pick(d, shardlimit.FailOpen, shardlimit.FailLocal)
	}
	most := pick(d, time.Duration(0), time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	for range 1 + d.IntN(4) {
		proc := processPlan{Outage: outage, Loss: pick(d, shardlimit.LossDefault, shardlimit.LossDefault, shardlimit.Quarantine)}
		proc.Nodes = d.Perm(p.Nodes)
		if partial && len(p.Procs) > 0 && d.oneIn(2) {
			proc.Nodes = d.Perm(p.Nodes - 1)
		}
		for range p.Nodes {
			proc.Latency = append(proc.Latency, time.Duration(d.Int64N(int64(most)+1)))
		}
		p.Procs = append(p.Procs, proc)
	}
	for range pick(d, 1, 1, 1, 2) {
		p.Limits = append(p.Limits, limitPlan{Limit: d.limit(), Family: d.theme == "family"})
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
	if d.theme == "family" {
		l.Shards = pick(d, 1, 2, 4, 8, 16)
	}
	if d.theme == "lease" || d.oneIn(15) {
		l.Algorithm, l.Lease = shardlimit.SlidingLog, pick(d, l.Per/2, l.Per, time.Second, 10*time.Second)
	}
	return l
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
		limit.Algorithm = 1 - limit.Algorithm
		limit.Lease = 0
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

func (d *drawing) add(s step) { d.plan.Steps = append(d.plan.Steps, s) }

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
	switch d.IntN(8) {
	case 0:
		return per / 4
	case 1, 2:
		return per
	case 3:
		return 2 * per
	case 4:
		return 16 * time.Second
	case 5, 6:
		return 61*time.Second + 2*per + time.Duration(d.Int64N(int64(2*time.Second)))
	}
	return time.Duration(1+d.IntN(3)) * time.Hour
}

// use is a few calls.
func (d *drawing) use(p, l int) {
	limit := d.plan.Limits[l].Limit
	switch d.IntN(7) {
	case 0:
		d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 1 + d.IntN(4), Times: 1 + d.IntN(8), For: limit.Per / 16})
	case 1, 2:
		d.add(step{Do: "take", P: p, L: l})
	case 3:
		d.add(step{Do: "call", Mode: "tenants", P: p, L: l, N: 40 + d.IntN(120), Times: 1})
	case 4:
		d.add(step{Do: "call", Mode: "n", P: p, L: l, N: 1 + d.IntN(6), Times: 1 + d.IntN(3), Size: 1 + d.Int64N(limit.Permits), For: limit.Per / 8})
	case 5:
		d.add(step{Do: "call", Mode: "upto", P: p, L: l, N: 1 + d.IntN(3), Times: 1 + d.IntN(6), Size: 1 + d.Int64N(limit.Permits), For: limit.Per / 8})
	case 6:
		d.add(step{Do: "call", Mode: "wait", P: p, L: l, N: 1 + d.IntN(6), Times: 1 + d.IntN(3), Size: 1 + d.Int64N(3), Aside: d.oneIn(2)})
	}
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

// scene is a few steps that belong together.
func (d *drawing) scene() {
	p, l := d.who(), d.which()
	if d.oneIn(3) {
		d.use(p, l)
		if d.oneIn(2) {
			d.add(step{Do: "rest", For: d.pause()})
		}
		return
	}
	switch d.theme {
	case "change":
		d.changing(p, l)
	case "idle":
		d.idle(p, l)
	case "suspend":
		d.suspended(p, l)
	case "records":
		d.records(p, l)
	case "crowd":
		d.crowd(p, l)
	case "family":
		d.family(p, l)
	case "lease":
		d.lease(p, l)
	case "faults":
		d.faults(p, l)
	case "rest":
		d.rest(p, l)
	default:
		pick(d, d.changing, d.changing, d.idle, d.suspended, d.records, d.crowd, d.lease, d.faults, d.faults, d.rest, d.bookings)(p, l)
	}
}

// alter changes a limit in one of the ways there are.
func (d *drawing) alter(p, l int) {
	limit := d.change(l)
	switch d.IntN(6) {
	case 0:
		d.add(step{Do: "revise", P: p, L: l, Limit: limit})
	case 1:
		if d.plan.Nodes > 1 && !d.plan.Limits[l].Family {
			d.add(step{Do: "nodes", P: p, L: l, List: d.Perm(d.plan.Nodes)[:1+d.IntN(d.plan.Nodes)]})
			return
		}
		fallthrough
	default:
		d.add(step{Do: "set", P: p, L: l, Limit: limit})
	}
}

func (d *drawing) changing(p, l int) {
	d.everybody(l)
	d.alter(p, l)
	d.everybody(l)
	if d.oneIn(4) {
		d.add(step{Do: "kill", P: p})
		d.add(step{Do: "start", P: p, Then: pick(d, 0, time.Second)})
	}
	d.add(step{Do: "rest", For: d.pause()})
	d.everybody(l)
	if d.oneIn(20) {
		d.add(step{Do: "delete", P: p, L: l})
	}
}

// idle is a process that knows a limit and does not use it while others change it.
func (d *drawing) idle(p, l int) {
	d.add(step{Do: "take", P: p, L: l})
	other := d.who()
	d.add(step{Do: "call", Mode: "allow", P: other, L: l, N: 1, Times: 1})
	d.alter(other, l)
	per := d.plan.Limits[l].Limit.Per
	d.add(step{Do: "rest", For: pick(d, 60*time.Second+2*per, 61*time.Second+2*per, 62*time.Second+3*per, 90*time.Second+2*per)})
	if d.oneIn(2) {
		d.add(step{Do: "take", P: other, L: l})
	}
	d.add(step{Do: "call", Mode: pick(d, "tenants", "tenants", "sizes"), P: p, L: l, N: 60 + d.IntN(120), Size: 2, Times: 1, Aside: d.oneIn(2)})
	d.add(step{Do: "take", P: other, L: l})
	d.everybody(l)
}

func (d *drawing) suspended(p, l int) {
	d.everybody(l)
	if d.oneIn(2) {
		d.add(step{Do: "rest", For: time.Second}) // so that the suspension interrupts nothing
	}
	long := pick(d, 10*time.Second, 45*time.Second, 64*time.Second, 5*time.Minute, 2*time.Hour)
	d.add(step{Do: "suspend", P: p, For: long, Then: time.Second})
	other := d.who()
	for range 1 + d.IntN(2) {
		d.alter(other, l)
		d.everybody(l)
	}
	d.add(step{Do: "rest", For: pick(d, long, long, 10*time.Second, 70*time.Second, 70*time.Second, 6*time.Minute, 3*time.Hour)})
	d.everybody(l)
	d.everybody(l)
	d.add(step{Do: "rest", For: d.plan.Limits[l].Limit.Per})
	d.everybody(l)
}

func (d *drawing) records(p, l int) {
	d.everybody(l)
	if d.oneIn(2) {
		d.add(step{Do: "save", Node: -1})
	}
	for range 1 + d.IntN(2) {
		d.alter(d.who(), l)
	}
	d.add(step{Do: "rest", For: d.pause()})
	switch d.IntN(4) {
	case 0:
		d.add(step{Do: "lose", Node: d.where()})
	case 1:
		d.add(step{Do: "restore", Mode: pick(d, "records", "node"), Node: d.where()})
	case 2:
		d.add(step{Do: "flush", Node: d.where()})
	case 3:
		d.add(step{Do: "restart", Node: d.where()})
	}
	if d.oneIn(3) {
		d.add(step{Do: "kill", P: p})
		d.add(step{Do: "start", P: p})
	}
	d.everybody(l)
	for range 2 {
		d.add(step{Do: "rest", For: d.plan.Limits[l].Limit.Per + 80*time.Second})
		d.everybody(l)
	}
}

// crowd is many callers at once who want more than one shard has.
func (d *drawing) crowd(p, l int) {
	limit := d.plan.Limits[l].Limit
	d.add(step{
		Do: "call", Mode: pick(d, "n", "n", "tenants", "sizes"), P: p, L: l, N: 30 + d.IntN(150), Times: 1 + d.IntN(2),
		Size: 1 + limit.Permits/int64(2+d.IntN(6)), For: limit.Per / 8,
	})
	d.add(step{Do: "rest", For: d.pause()})
}

func (d *drawing) family(p, l int) {
	d.everybody(l)
	if d.plan.Nodes > 1 && d.oneIn(3) {
		d.add(step{Do: "move", List: d.Perm(d.plan.Nodes)[:1+d.IntN(d.plan.Nodes)]})
		if d.oneIn(2) {
			d.add(step{Do: "kill", P: p})
			d.add(step{Do: "start", P: p})
		}
	} else {
		d.add(step{Do: "set", P: p, L: l, Limit: d.change(l)})
	}
	d.everybody(l)
	d.everybody(l)
	if d.oneIn(2) {
		d.add(step{Do: "rest", For: d.pause()})
	}
}

// lease is a busy process that holds permits ahead, while another changes the limit.
func (d *drawing) lease(p, l int) {
	limit := d.plan.Limits[l].Limit
	d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 1, Times: int(limit.Permits/2) + 1, For: time.Millisecond})
	d.add(step{Do: "rest", For: pick(d, limit.Per, 2*limit.Per, limit.Per+limit.Lease, 5*time.Second)})
	if d.oneIn(2) {
		changed := limit
		changed.Lease = pick(d, 0, 10*time.Millisecond, limit.Lease/2)
		d.add(step{Do: "set", P: d.who(), L: l, Limit: changed})
		d.add(step{Do: "rest", For: pick(d, limit.Lease, limit.Lease+limit.Per, limit.Lease+5*time.Second)})
	}
	d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 1, Times: 1})
	d.add(step{Do: "rest", For: pick(d, 20*time.Millisecond, limit.Per-limit.Per/50, limit.Per/2)})
	d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 4, Times: int(limit.Permits) / 4, Aside: true})
	for range 4 {
		d.everybody(l)
		d.add(step{Do: "rest", For: pick(d, limit.Per/4, 20*time.Millisecond)})
	}
}

func (d *drawing) bookings(p, l int) {
	limit := d.plan.Limits[l].Limit
	d.add(step{Do: "take", P: p, L: l})
	d.add(step{Do: "reserve", Mode: pick(d, "", "cancel"), P: p, L: l, Size: 1 + d.Int64N(limit.Permits), For: limit.Per / 2, Aside: true})
	d.add(step{Do: "refund", P: p, L: l})
	d.everybody(l)
}

func (d *drawing) faults(p, l int) {
	if d.oneIn(3) {
		d.everybody(l)
	}
	switch d.IntN(5) {
	case 0:
		d.add(step{Do: "down", Node: d.where(), For: pick(d, time.Second, 5*time.Second, time.Minute)})
	case 1, 2:
		d.add(step{Do: "link", Mode: pick(d, "slow", "stuck", "lossy", "cut"), P: p, Node: d.IntN(d.plan.Nodes), For: pick(d, 200*time.Millisecond, 2*time.Second, 15*time.Second)})
	case 3:
		per := d.plan.Limits[l].Limit.Per
		d.add(step{Do: "clock", Node: d.where(), For: pick(d, -per/2, -2*per, -time.Minute, per/2, 2*per, time.Hour)})
	case 4:
		d.add(step{Do: pick(d, "flush", "restart"), Node: d.where()})
	}
	d.everybody(l)
	if d.oneIn(2) {
		d.alter(d.who(), l)
	}
	d.everybody(l)
	d.add(step{Do: "rest", For: d.pause()})
	d.everybody(l)
}

// rest looks whether what is free is had.
func (d *drawing) rest(p, l int) {
	d.add(step{Do: "settle", P: p, L: l})
	for range 1 + d.IntN(2) {
		d.add(step{Do: "free", P: d.who(), L: l, For: d.pause()})
	}
}

// end is what every history ends with.
func (d *drawing) end() {
	for p := range d.plan.Procs {
		d.add(step{Do: "start", P: p})
	}
	d.add(step{Do: "rest", For: 70 * time.Second})
	for l := range d.plan.Limits {
		d.everybody(l)
		d.rest(d.who(), l)
	}
}
