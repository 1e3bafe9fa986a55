package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// How long a process believes that a shard has nothing: knowledge.go of the root package.
const (
	shutCapMin = int64(10 * time.Millisecond)
	shutCapMax = int64(time.Second)
)

// refusals is after how many shards a call gives up that kept their permits for
// others: route.go of the root package.
const refusals = 4

// weight is that of every process, in thousandths.
const weight = 1000

// inspections is how often the observer looks while it counts.
const inspections = 20_000

// world is a simulation under way.
type world struct {
	c       *Config
	rng     *rand.Rand
	agenda  agenda
	vessels []*vessel
	nodes   []node
	fleet   []process
	shutCap int64
	from    int64 // counting begins
	until   int64 // and ends
	counts  bool
	result  *Result
	served  []int64 // calls of each node before counting

	places []int // scratch of dispatch
	loads  []int64
	got    []int64
}

// patience is how many events are played between two looks at the context.
const patience = 1 << 14

// Run plays the configuration, until ctx ends.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	w := &world{
		c:       &c,
		rng:     rand.New(rand.NewPCG(c.Seed, 1)),
		shutCap: min(max(int64(c.Window)/10, shutCapMin), shutCapMax),
		from:    int64(c.Warm),
		until:   int64(c.Warm + c.For),
		result:  &Result{Elapsed: c.For},
	}
	var shards []shard.Shard
	var err error
	if w.vessels, shards, err = newVessels(&c); err != nil {
		return nil, err
	}
	w.populate(shards)
	if err := w.play(ctx); err != nil {
		return nil, err
	}
	return w.finish(), nil
}

func (w *world) populate(shards []shard.Shard) {
	c := w.c
	w.nodes = make([]node, len(c.Nodes))
	for i := range w.nodes {
		n := &w.nodes[i]
		n.script, n.quota, n.period = int64(c.script(i)), int64(c.Server.Quota), int64(c.Server.Period)
		if n.period > 0 {
			n.phase = -w.rng.Int64N(n.period)
		}
		n.which = -1
	}
	w.fleet = make([]process, len(c.Participants))
	for i, name := range c.Participants {
		p := &w.fleet[i]
		p.id = fmt.Sprintf("%016x", i)
		for _, k := range shard.Rank(name, shards) {
			p.order = append(p.order, uint8(k))
		}
		p.lanes = make([]*lane, len(p.order))
		p.all = 1<<len(p.order) - 1 // of 64: all bits, as the shift leaves 0
		if c.Callers > 0 {
			w.agenda.put(event{at: w.rng.Int64N(int64(time.Millisecond)), process: int32(i), what: comeback,
				n: int32(c.Callers)})
			continue
		}
		p.rate = c.Demand[i] / 1e9
		w.plan(i, 0)
	}
	for i := range inspections {
		w.agenda.put(event{at: w.from + int64(float64(w.until-w.from)*(float64(i)+0.5)/inspections), what: inspect})
	}
}

func (w *world) play(ctx context.Context) error {
	for round := 0; ; round++ {
		if round%patience == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, ok := w.agenda.next()
		if !ok || e.at >= w.until {
			return nil
		}
		if !w.counts && e.at >= w.from {
			w.begin()
		}
		switch e.what {
		case arrive:
			w.arrived(e)
		case comeback:
			w.dispatch(int(e.process), e.at, asks{n: int64(e.n), from: e.at, to: e.at})
		case reach:
			w.reached(e)
		case answer:
			w.answered(e)
		case inspect:
			w.inspected(e.at)
		}
	}
}

// begin forgets what happened before counting.
func (w *world) begin() {
	w.drawArrivals(w.from)
	w.counts = true
	w.served = make([]int64, len(w.nodes))
	w.result.Got = make([]int64, len(w.fleet))
	for i := range w.nodes {
		w.served[i] = w.nodes[i].calls
	}
}

// drawArrivals draws those up to now that wait or are denied and have been left for later.
func (w *world) drawArrivals(now int64) {
	for i := range w.fleet {
		w.catchUp(i, now)
	}
}

// plan says when the process is to be looked at next: at its next arrival if that
// would find an idle shard, else, if a shard is shut, when it opens.
func (w *world) plan(i int, now int64) {
	p := &w.fleet[i]
	if p.rate == 0 {
		return
	}
	p.since = now
	p.plan++
	p.lazy = true
	w.places, _ = p.candidates(now, 0, w.c.Route.Preferred, w.places)
	for _, place := range w.places {
		p.lazy = p.lazy && p.lanes[place].load() > 0
	}
	at := p.opens
	if !p.lazy {
		at = now + 1 + int64(min(w.rng.ExpFloat64()/p.rate, math.MaxInt64/4))
	}
	if at != 0 {
		w.agenda.put(event{at: at, process: int32(i), what: arrive, n: p.plan})
	}
}

func (w *world) arrived(e event) {
	p := &w.fleet[e.process]
	if e.n != p.plan {
		return // something else has happened since
	}
	if p.lazy {
		w.catchUp(int(e.process), e.at)
	} else {
		w.dispatch(int(e.process), e.at, asks{n: 1, from: e.at, to: e.at})
	}
	w.plan(int(e.process), e.at)
}

// catchUp draws the arrivals since the process was last looked at. All of them
// found the state that still holds now.
func (w *world) catchUp(i int, now int64) {
	p := &w.fleet[i]
	if p.rate == 0 || !p.lazy || now <= p.since {
		return
	}
	n := poisson(w.rng, p.rate*float64(now-p.since))
	// Decide as of the time before this event: what opens right now was shut for them.
	if n > 0 {
		w.send(i, now-1, now, asks{n: n, from: p.since, to: now})
	}
	p.since = now
}

// join adds asks to what waits at a lane.
func (w *world) join(i, place int, now int64, a asks) {
	l := w.fleet[i].lane(place)
	a.done |= 1 << place
	l.enqueue(a)
	if !l.busy {
		// The first of a group that comes at once starts the call; the others
		// find it under way.
		w.depart(i, place, now, 1)
	}
}

func (w *world) depart(i, place int, now, most int64) {
	l := w.fleet[i].lanes[place]
	w.expire(i, l, now)
	if l.waiting == 0 {
		l.busy = false
		return
	}
	l.board(most)
	l.busy, l.sent = true, now
	l.news, l.reported = w.fleet[i].unmet-l.reported, w.fleet[i].unmet
	w.agenda.put(event{at: now + w.way(), process: int32(i), place: uint8(place), what: reach})
}

// expire ends the asks that waited so long that an answer could come after the
// call timeout: lane.depart of the root package.
func (w *world) expire(i int, l *lane, now int64) {
	if w.c.Timeout == 0 {
		return
	}
	limit := now - int64(w.c.Timeout/2)
	for len(l.pending) > 0 && l.pending[0].from < limit {
		old, rest := l.pending[0].before(limit)
		if rest.n > 0 {
			l.pending[0] = rest
		} else {
			l.pending = append(l.pending[:0], l.pending[1:]...)
		}
		l.waiting -= old.n
		w.late(i, now, old)
		if rest.n > 0 {
			return
		}
	}
}

// way is the time of one way through the network.
func (w *world) way() int64 {
	n := w.c.Network
	return int64(n.Delay) + int64(w.rng.ExpFloat64()*float64(n.Jitter))
}

// reached is a script call on its node.
func (w *world) reached(e event) {
	p := &w.fleet[e.process]
	l, k := p.lanes[e.place], int(p.order[e.place])
	v := w.vessels[k]
	extra := int64(0)
	if v.contended {
		extra = int64(w.c.Server.Contended)
	}
	executed := w.nodes[v.node].serve(e.at, extra)
	l.reply = v.take(executed, l.inFlight, script.Caller{
		ID: p.id, Slot: l.slot, Weight: weight, Unmet: l.news * min(1000, 2000/int64(len(p.order))),
	})
	if w.counts {
		w.result.Granted += l.reply.granted
		if l.reply.granted == 0 {
			w.result.Vain++
		}
	}
	w.agenda.put(event{at: executed + w.way(), process: e.process, place: e.place, what: answer})
}

// answered hands out what a call brought, and sends the next.
func (w *world) answered(e event) {
	i, now := int(e.process), e.at
	w.catchUp(i, now)
	p := &w.fleet[i]
	l := p.lanes[e.place]
	l.inFlight = 0
	if w.counts && w.c.Timeout != 0 && now-l.sent > int64(w.c.Timeout/2) {
		w.result.Overdue++
	}
	w.learn(p, int(e.place), now)
	left := l.reply.granted
	var allowed int64
	flying := l.flying
	l.flying = nil // dispatch may use the lane
	for _, a := range flying {
		first, rest := a, asks{}
		if a.n > left {
			first, rest = a.split(left)
		}
		left -= first.n
		allowed += first.n
		w.allowed(now, first)
		if rest.n > 0 {
			w.refused(i, l, now, rest)
		}
	}
	l.flying = flying[:0]
	if w.counts {
		w.result.Got[i] += allowed
	}
	if p.rate == 0 && allowed > 0 {
		w.again(i, now, allowed)
	}
	l.busy = false
	w.refuseBehind(i, l, now)
	if l.waiting > 0 && !l.busy {
		w.depart(i, int(e.place), now, math.MaxInt64)
	}
	w.plan(i, now)
}

// refuseBehind answers what waits at a lane by what the last reply told, if that makes the
// lane of no use for a while: lane.fly of the root package.
func (w *world) refuseBehind(i int, l *lane, now int64) {
	if l.waiting == 0 || l.until() <= now {
		return
	}
	behind := slices.Clone(l.pending) // dispatch may use the lane
	l.pending, l.waiting = l.pending[:0], 0
	for _, a := range behind {
		w.refused(i, l, now, a)
	}
}

// refused sends asks on that a shard had nothing for: attempt and spill of the root package.
func (w *world) refused(i int, l *lane, now int64, a asks) {
	if l.notBefore > now {
		a.refused++
	}
	if a.refused == refusals {
		w.denied(i, now, a)
	} else {
		w.dispatch(i, now, a)
	}
}

// again has callers of a closed loop call again, some of them in time for the
// batch that leaves now.
func (w *world) again(i int, now, n int64) {
	exact := w.c.Route.Rejoin * float64(n)
	quick := int64(exact)
	if w.rng.Float64() < exact-float64(quick) {
		quick++
	}
	if quick > 0 {
		w.dispatch(i, now, asks{n: quick, from: now, to: now})
	}
	if n > quick {
		w.agenda.put(event{at: now + 1 + int64(w.c.Reaction), process: int32(i), what: comeback, n: int32(n - quick)})
	}
}

// learn is knowledge.learn and Seat.learn of internal/lane.
func (w *world) learn(p *process, place int, now int64) {
	l := p.lanes[place]
	l.notBefore = 0
	if l.reply.contended {
		l.slot = l.reply.slot
		if l.reply.retry > 0 {
			l.notBefore = l.sent + (now-l.sent)/2 + int64(l.reply.retry)
		}
	}
	if l.reply.free > 0 {
		l.shutUntil = 0
		p.close(place, now)
		return
	}
	next := int64(l.reply.next)
	if next <= 0 {
		next = min(w.shutCap, int64(w.c.Window))
	}
	l.shutUntil = l.sent + min(next, w.shutCap)
	p.close(place, now)
}
