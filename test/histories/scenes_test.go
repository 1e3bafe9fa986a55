package histories

import (
	"time"

	"github.com/shardlimit/shardlimit"
)

// scenes are what happens in histories of a theme, as often as it is named. A scene is a few steps
// that belong together, about a process and a limit.
var scenes = map[string][]func(d *drawing, p, l int){
	"mixed": {(*drawing).changing, (*drawing).changing, (*drawing).idle, (*drawing).suspended, (*drawing).records,
		(*drawing).crowd, (*drawing).lease, (*drawing).faults, (*drawing).faults, (*drawing).rest, (*drawing).bookings},
	"change":     {(*drawing).emptied, (*drawing).changing, (*drawing).changing},
	"idle":       {(*drawing).idle},
	"suspend":    {(*drawing).suspended},
	"records":    {(*drawing).records},
	"crowd":      {(*drawing).crowd},
	"family":     {(*drawing).family},
	"lease":      {(*drawing).lease},
	"faults":     {(*drawing).faults},
	"rest":       {(*drawing).rest},
	"places":     {(*drawing).places},
	"lost":       {(*drawing).lost},
	"algorithms": {(*drawing).lost},
	"losses":     {(*drawing).losses},
	"ahead":      {(*drawing).ahead},
	"drains":     {(*drawing).drains},
	"stalls":     {(*drawing).stalls},
}

// scene is one of those, or a few calls.
func (d *drawing) scene() {
	p, l := d.who(), d.which()
	if !d.oneIn(3) {
		pick(d, scenes[d.theme]...)(d, p, l)
		return
	}
	d.use(p, l)
	d.maybe(2, rest(d.pause()))
}

func rest(d time.Duration) step { return step{Do: "rest", For: d} }

// reborn is another process in place of one.
func reborn(p int) []step { return []step{{Do: "kill", P: p}, {Do: "start", P: p}} }

// drains takes nodes out by the book, one after the other, while the limits are in use, and has
// some lost or changed besides.
func (d *drawing) drains(p, l int) {
	d.everybody(l)
	for range 1 + d.IntN(3) {
		d.add(step{Do: "retire", P: d.who(), Node: d.IntN(d.plan.Nodes)})
		d.everybody(l)
		d.maybe(3, rest(d.pause()))
		d.maybe(3, d.alter(d.who(), l))
		d.maybe(4, reborn(p)...)
		d.maybe(3, step{Do: "join", P: p, Node: d.plan.Nodes - 1})
	}
	if d.oneIn(4) {
		d.faults(p, l)
	}
	d.everybody(l)
}

// stalls has one node answer nobody for a while.
func (d *drawing) stalls(p, l int) {
	d.everybody(l)
	d.add(rest(pick(d, time.Second, 20*time.Second, 2*time.Minute)), step{Do: "stall", P: p, L: l,
		Node: d.IntN(d.plan.Nodes), For: pick(d, 2*time.Second, 8*time.Second, 30*time.Second)})
	d.everybody(l)
	d.maybe(2, d.alter(d.who(), l))
	d.add(rest(d.pause()))
	d.everybody(l)
}

// losses is servers that are restarted empty while permits are in use, by processes of which some
// are idle and some die.
func (d *drawing) losses(p, l int) {
	per := d.plan.Limits[l].Limit.Per
	for p := range d.plan.Procs {
		d.add(once(p, l))
	}
	for range 1 + d.IntN(3) {
		d.use(d.who(), l)
		d.add(rest(pick(d, time.Second, per/16, per/4)))
	}
	if d.oneIn(2) {
		d.everybody(l)
	}
	switch d.IntN(5) {
	case 0:
		d.add(step{Do: "reserve", P: p, L: l, Size: 1 + d.Int64N(4), For: per / 2, Aside: true})
	case 1:
		d.add(step{Do: "repay", P: p, L: l})
		d.everybody(l)
	case 2:
		d.add(pick(d, reborn(p), reborn(p)[:1])...)
		d.use(p, l)
	}
	d.add(rest(pick(d, 3*time.Second, per/8, per/2)))
	for range pick(d, 1, 1, 1, 2) {
		d.add(step{Do: "restart", Node: d.where(), Then: pick(d, 0, time.Second, per/32)})
		d.use(d.who(), l)
		d.add(rest(pick(d, time.Second, 5*time.Second, per/16)))
	}
	for range 2 {
		d.everybody(l)
		d.add(rest(pick(d, per/16+time.Second, per/4, per/2)))
	}
	d.everybody(l)
}

// once is a single call.
func once(p, l int) step { return step{Do: "call", Mode: "allow", P: p, L: l, N: 1, Times: 1} }

// lost is a node that cannot be reached for long enough to be taken over, by all or by some, and
// what goes on meanwhile.
func (d *drawing) lost(_, l int) {
	d.everybody(l)
	d.busy(l)
	if d.oneIn(8) {
		d.forgets(l, 25*time.Second, "lose", func() {
			for range 2 {
				d.busy(l)
				d.add(rest(12 * time.Second))
			}
		})
		return
	}
	node, long := d.IntN(d.plan.Nodes), pick(d, 2*time.Second, 6*time.Second, 12*time.Second, 30*time.Second,
		5*time.Minute)
	down := step{Do: "down", Node: node, For: long}
	switch d.IntN(8) {
	case 0, 1:
		d.add(down)
	case 2:
		s := step{Do: "suspend", P: d.who(), For: long}
		if limit := d.plan.Limits[l]; node%2 == 0 && !limit.Family && limit.Limit.Lease == 0 {
			s.Mode = "stopped" // what is held, and keys that moved, are not told of it
		}
		down.For = pick(d, long, 8*time.Second)
		d.add(s, down)
	case 3, 4:
		for p := range d.plan.Procs {
			for n := range d.plan.Nodes {
				if n == node && d.oneIn(2) || d.oneIn(6) {
					d.add(step{Do: "link", Mode: pick(d, wrong...), P: p, Node: n, For: long})
				}
			}
		}
	case 5:
		d.add(step{Do: pick(d, "restart", "flush"), Node: node}, down)
	case 6, 7:
		d.parted(node, long)
	}
	for range 2 + d.IntN(5) {
		d.busy(l)
		d.maybe(6, d.alter(d.who(), l))
		d.maybe(8, reborn(d.who())...)
		d.add(rest(pick(d, time.Second, time.Second, 4*time.Second, 8*time.Second, long)))
		d.everybody(l)
	}
}

// wrong is what can be wrong on the way to a node.
var wrong = []string{"slow", "stuck", "lossy", "cut"}

// forgets has one node be away while something comes to be known: that it is out, or that the limit
// has changed. Then another one forgets it, and a third, which knows it, is away. Then a process
// comes that knows nothing.
func (d *drawing) forgets(l int, away time.Duration, loss string, learn func()) {
	nodes := d.Perm(d.plan.Nodes)
	d.add(step{Do: "down", Node: nodes[0], For: away})
	learn()
	d.add(step{Do: loss, Node: nodes[1]}, step{Do: "down", Node: nodes[2], For: 25 * time.Second})
	d.add(reborn(d.who())...)
	for range 3 {
		if d.ofLoss() {
			d.busy(l)
		}
		d.everybody(l)
		d.add(rest(pick(d, time.Second, 5*time.Second)))
	}
}

// ahead is a node that is lost while permits are reserved ahead on it, or while some are to be, and
// what the others take until long after.
func (d *drawing) ahead(_, l int) {
	limit := d.plan.Limits[l].Limit
	long := pick(d, 2*limit.Per, 4*limit.Per)
	books := func() step {
		size := 1 + d.Int64N(limit.Permits)
		return pick(d, step{Do: "reserve", P: d.who(), L: l, Size: size, For: limit.Per / 2, Aside: true},
			step{Do: "call", Mode: "wait", P: d.who(), L: l, Size: size, For: limit.Per / 2, Aside: true,
				N: 1 + d.IntN(3), Times: 1})
	}
	d.everybody(l)
	node := d.IntN(d.plan.Nodes)
	if d.oneIn(4) {
		d.shortened(l, node)
		return
	}
	for range d.IntN(3) {
		d.add(books())
	}
	d.add(rest(pick(d, 20*time.Millisecond, time.Second)))
	down := step{Do: "down", Node: node, For: long}
	switch d.IntN(4) {
	case 0:
		d.parted(node, long)
	case 1:
		d.add(step{Do: "link", Mode: "stuck", P: d.who(), Node: node, For: long}, down, rest(20*time.Millisecond))
	default:
		d.add(down)
	}
	d.maybe(4, books())
	d.maybe(4, d.alter(d.who(), l))
	for range 4 + d.IntN(4) {
		d.busy(l)
		d.add(rest(pick(d, limit.Per/8, limit.Per/4, limit.Per/2)))
		d.everybody(l)
	}
}

// shortened is a limit all of which is reserved a window ahead, and that has a far shorter window
// from then on; and a node that is lost before what is reserved is used.
func (d *drawing) shortened(l, node int) {
	limit := d.plan.Limits[l].Limit
	short := limit
	short.Per = time.Second
	d.add(step{Do: "take", P: d.who(), L: l}, step{Do: "reserve", P: d.who(), L: l, Size: limit.Permits},
		step{Do: "set", P: d.who(), L: l, Limit: short, Then: 3 * time.Second},
		step{Do: "down", Node: node, For: 4 * limit.Per})
	for p := range d.plan.Procs {
		d.add(step{Do: "call", Mode: "upto", P: p, L: l, N: 1, Times: int(2 * limit.Per / (400 * time.Millisecond)),
			Size: limit.Permits, For: 400 * time.Millisecond, Aside: p < len(d.plan.Procs)-1})
	}
}

// parted is a partition: one process reaches only the node, the others only the rest.
func (d *drawing) parted(node int, long time.Duration) {
	alone := d.who()
	for p := range d.plan.Procs {
		for n := range d.plan.Nodes {
			if (p == alone) != (n == node) {
				d.add(step{Do: "link", Mode: pick(d, "stuck", "cut"), P: p, Node: n, For: long})
			}
		}
	}
}

// busy is a few seconds of calls by all processes, which notice by that what is wrong.
func (d *drawing) busy(l int) {
	per := max(d.plan.Limits[l].Limit.Per/8, 50*time.Millisecond)
	for p := range d.plan.Procs {
		d.add(step{Do: "call", Mode: pick(d, "allow", "upto"), P: p, L: l, N: 2, Times: 10 + d.IntN(60),
			Size: 1 + d.Int64N(4), For: per, Aside: p < len(d.plan.Procs)-1 || d.oneIn(3)})
	}
}

// alter changes a limit in one of the ways there are.
func (d *drawing) alter(p, l int) step {
	limit := d.change(l)
	switch d.IntN(6) {
	case 0:
		return step{Do: "revise", P: p, L: l, Limit: limit}
	case 1:
		if d.plan.Nodes > 1 && !d.plan.Limits[l].Family {
			return step{Do: "nodes", P: p, L: l, List: d.some()}
		}
	}
	return step{Do: "set", P: p, L: l, Limit: limit}
}

// some are some of the nodes, in any order.
func (d *drawing) some() []int { return d.Perm(d.plan.Nodes)[:1+d.IntN(d.plan.Nodes)] }

func (d *drawing) changing(p, l int) {
	d.everybody(l)
	d.add(d.alter(p, l))
	d.everybody(l)
	d.maybe(4, append(reborn(p), rest(pick(d, 0, time.Second)))...)
	d.add(rest(d.pause()))
	d.everybody(l)
	d.maybe(20, step{Do: "delete", P: p, L: l})
}

// emptied is a node that restarts empty just after a change, and a process that still believes in
// the layout before: it has read that less than 5 s ago.
func (d *drawing) emptied(p, l int) {
	limit := d.plan.Limits[l].Limit
	limit.Per, limit.Lease = pick(d, 100*time.Millisecond, 100*time.Millisecond, time.Second), 0
	d.add(step{Do: "take", P: p, L: l}, rest(3*time.Second), // else the limit counts as new
		step{Do: "set", P: p, L: l, Limit: limit})
	if !d.plan.Limits[l].Family {
		d.otherAlgorithm(&limit)
	}
	d.add(step{Do: "set", P: p + 1, L: l, Limit: limit}, step{Do: "restart", Node: d.IntN(d.plan.Nodes)},
		rest(pick(d, 250*time.Millisecond, 2*time.Second, 2*time.Second, 6*time.Second)), step{Do: "take", P: p, L: l})
	d.everybody(l)
}

// idle is a process that knows a limit and does not use it while others change it.
func (d *drawing) idle(p, l int) {
	other, per := d.who(), d.plan.Limits[l].Limit.Per
	take := step{Do: "take", P: other, L: l}
	d.add(step{Do: "take", P: p, L: l}, once(other, l), d.alter(other, l),
		rest(pick(d, 60*time.Second+2*per, 61*time.Second+2*per, 62*time.Second+3*per, 90*time.Second+2*per)))
	d.maybe(2, take)
	d.add(step{Do: "call", Mode: pick(d, "tenants", "tenants", "sizes"), P: p, L: l, N: 60 + d.IntN(120), Size: 2,
		Times: 1, Aside: d.oneIn(2)}, take)
	d.everybody(l)
}

func (d *drawing) suspended(p, l int) {
	d.everybody(l)
	d.maybe(2, rest(time.Second)) // so that the suspension interrupts nothing
	long := pick(d, 10*time.Second, 45*time.Second, 64*time.Second, 5*time.Minute, 2*time.Hour)
	d.add(step{Do: "suspend", P: p, For: long, Then: time.Second})
	other := d.who()
	for range 1 + d.IntN(2) {
		d.add(d.alter(other, l))
		d.everybody(l)
	}
	d.add(rest(pick(d, long, long, 10*time.Second, 70*time.Second, 70*time.Second, 6*time.Minute, 3*time.Hour)))
	d.everybody(l)
	d.everybody(l)
	d.add(rest(d.plan.Limits[l].Limit.Per))
	d.everybody(l)
}

func (d *drawing) records(p, l int) {
	d.everybody(l)
	d.maybe(2, step{Do: "save", Node: -1})
	for range 1 + d.IntN(2) {
		d.add(d.alter(d.who(), l))
	}
	if d.plan.Nodes > 2 && d.oneIn(4) {
		limit := d.plan.Limits[l].Limit
		limit.Permits = max(limit.Permits/4, 2)
		d.forgets(l, 3*time.Second, pick(d, "restart", "flush"), func() {
			d.add(step{Do: "set", P: d.who(), L: l, Limit: limit}, rest(4*time.Second))
		})
		return
	}
	loss := pick(d, step{Do: "lose"}, step{Do: "restore", Mode: pick(d, "records", "node")}, step{Do: "flush"},
		step{Do: "restart"})
	loss.Node = d.where()
	d.add(rest(d.pause()), loss)
	d.maybe(3, reborn(p)...)
	d.everybody(l)
	for range 2 {
		d.add(rest(d.plan.Limits[l].Limit.Per + 80*time.Second))
		d.everybody(l)
	}
}

// crowd is many callers at once who want more than one shard has.
func (d *drawing) crowd(p, l int) {
	limit := d.plan.Limits[l].Limit
	d.add(step{Do: "call", Mode: pick(d, "n", "n", "tenants", "sizes"), P: p, L: l, N: 30 + d.IntN(150),
		Times: 1 + d.IntN(2), Size: 1 + limit.Permits/int64(2+d.IntN(6)), For: limit.Per / 8}, rest(d.pause()))
}

// keyChange changes the limit of a family's key.
func (d *drawing) keyChange(p, l int, aside bool) {
	s := step{Do: "bring", P: p, L: l, N: pick(d, 1, 1, 0, -1), Limit: d.change(l), Aside: aside}
	switch d.IntN(8) {
	case 0, 1:
		s.Do = "set"
	case 2:
		s.Limit.Mode = pick(d, shardlimit.Off, shardlimit.Closed)
	case 3, 4:
		s.Limit.Permits = max(s.Limit.Permits/4, 2)
	case 5:
		s.Limit.Permits *= 2
	}
	d.add(s)
}

func (d *drawing) family(p, l int) {
	d.everybody(l)
	if d.plan.Nodes > 1 && d.oneIn(3) {
		d.add(step{Do: "move", List: d.some()})
		d.maybe(2, reborn(p)...)
	} else {
		d.keyChange(p, l, d.oneIn(4))
	}
	d.everybody(l)
	d.everybody(l)
	d.maybe(2, rest(d.pause()))
}

// places moves the keys of a family while they are in use, over the nodes of one process, or to
// another algorithm.
func (d *drawing) places(p, l int) {
	d.everybody(l)
	for range 1 + d.IntN(2) {
		switch d.IntN(4) {
		case 0:
			limit := d.change(l)
			if d.oneIn(2) {
				limit.Algorithm = 1 - limit.Algorithm
			}
			d.add(step{Do: "set", P: d.who(), L: l, Limit: limit})
		case 1:
			d.keyChange(d.who(), l, d.oneIn(2))
		default:
			d.add(step{Do: "place", P: d.who(), L: l, List: d.some(), Aside: d.oneIn(2)})
		}
		d.everybody(l)
	}
	suspend := step{Do: "suspend", P: p, For: pick(d, time.Second, time.Minute, time.Hour), Then: time.Second}
	link := step{Do: "link", Mode: pick(d, wrong...), P: p, Node: d.IntN(d.plan.Nodes),
		For: pick(d, 200*time.Millisecond, 2*time.Second)}
	d.add(pick(d, reborn(p), []step{suspend}, []step{link}, nil, nil)...)
	d.everybody(l)
	d.maybe(2, rest(d.pause()))
	d.everybody(l)
}

// lease is a busy process that holds permits ahead, while another changes the limit.
func (d *drawing) lease(p, l int) {
	limit := d.plan.Limits[l].Limit
	changed := limit
	changed.Lease = pick(d, 0, 10*time.Millisecond, limit.Lease/2)
	d.add(step{Do: "call", Mode: "allow", P: p, L: l, N: 1, Times: int(limit.Permits/2) + 1, For: time.Millisecond},
		rest(pick(d, limit.Per, 2*limit.Per, limit.Per+limit.Lease, 5*time.Second)))
	d.maybe(2, step{Do: "set", P: d.who(), L: l, Limit: changed},
		rest(pick(d, limit.Lease, limit.Lease+limit.Per, limit.Lease+5*time.Second)))
	d.add(once(p, l), rest(pick(d, 20*time.Millisecond, limit.Per-limit.Per/50, limit.Per/2)),
		step{Do: "call", Mode: "allow", P: p, L: l, N: 4, Times: int(limit.Permits) / 4, Aside: true})
	for range 4 {
		d.everybody(l)
		d.add(rest(pick(d, limit.Per/4, 20*time.Millisecond)))
	}
}

func (d *drawing) bookings(p, l int) {
	limit := d.plan.Limits[l].Limit
	d.add(step{Do: "take", P: p, L: l}, step{Do: "reserve", Mode: pick(d, "", "cancel"), P: p, L: l,
		Size: 1 + d.Int64N(limit.Permits), For: limit.Per / 2, Aside: true}, step{Do: "repay", P: p, L: l})
	d.everybody(l)
}

func (d *drawing) faults(p, l int) {
	if d.oneIn(3) {
		d.everybody(l)
	}
	per := d.plan.Limits[l].Limit.Per
	link := step{Do: "link", Mode: pick(d, wrong...), P: p, Node: d.IntN(d.plan.Nodes),
		For: pick(d, 200*time.Millisecond, 2*time.Second, 15*time.Second)}
	d.add(pick(d, link, link,
		step{Do: "down", Node: d.where(), For: pick(d, time.Second, 5*time.Second, time.Minute)},
		step{Do: "clock", Node: d.where(), For: pick(d, -per/2, -2*per, -time.Minute, per/2, 2*per, time.Hour)},
		step{Do: pick(d, "flush", "restart"), Node: d.where()}))
	d.everybody(l)
	d.maybe(2, d.alter(d.who(), l))
	d.everybody(l)
	d.add(rest(d.pause()))
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
	d.add(rest(70 * time.Second))
	for l := range d.plan.Limits {
		d.everybody(l)
		d.rest(d.who(), l)
	}
	if d.theme == "drains" || d.theme == "mixed" {
		d.add(step{Do: "declare", P: d.who(), Node: d.IntN(d.plan.Nodes), For: 10 * time.Second})
	}
}
