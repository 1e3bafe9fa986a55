package shard_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
)

// rules are what the simulation obeys. The zero value of every flag is the safe
// protocol; each flag breaks one rule.
type rules struct {
	plan            func(shard.Layout, []shard.Observation) shard.Step
	memory          int  // ticks a caller may rely on a layout without confirming it
	neverConfirm    bool // callers propose layouts however long ago they were confirmed
	looseQuarantine bool // a quarantined shard accepts floors
	shortQuarantine bool // a quarantine may end before what was read before the loss
	keptQuarantine  bool // after a quarantine the state goes on, and nothing has to be confirmed
	eagerCreate     bool // an unsettled layout creates shards with their whole target
	boldChange      bool // a change of an unsettled layout takes its shares for starts
	newAlgorithm    bool // a change of the algorithm forgets the shards of the old one
	noLoss          bool // shards do not lose their memory
	losses          bool // they often do, and processes call seldom
	anew            bool // the record forgets layouts now and then, and one before goes on
	boldAnew        bool // what goes on takes its shares for starts
}

func safe() rules { return rules{plan: shard.Layout.Plan, memory: 6} }

// world is one limit, its shards, and everybody who uses or changes it.
type world struct {
	rules
	pace
	rng      *rand.Rand
	now      int
	register shard.Layout
	before   []shard.Layout // that the register held
	chain    []int64        // limits since the last settled layout, that one included
	windows  []interval
	cells    map[home]*cell
	down     map[shard.Location]bool
	clients  []view
	drivers  []driver
	admins   []view
	wire     []message
	replies  []answer
	granted  []grant // never forgotten
	settled  int     // transitions completed
	// of those, how many before the faults stopped; and how often layouts were forgotten
	completed, forgotten int
}

// view is what a process believes, and when it last confirmed it.
type view struct {
	layout shard.Layout
	at     int
}

type driver struct {
	view
	obs []shard.Observation
}

// home is where a shard has its state: every algorithm its own.
type home struct {
	shard.Location
	algorithm string
}

// message is a proposal under way to a shard; answer is a reply under way to a driver.
type message struct {
	to            home
	p             proposal
	driver, shard int
	confirmed     int
}

type answer struct {
	driver, shard int
	epoch         int64
	obs           shard.Observation
}

// interval is a window that counts until a tick.
type interval struct{ window, until int }

const forever = 1 << 30

func newWorld(rng *rand.Rand, r rules) *world {
	w := &world{rules: r, pace: newPace(rng), rng: rng, cells: map[home]*cell{}, down: map[shard.Location]bool{}}
	if w.call = 250; r.losses {
		w.pace.lose, w.call = 5*w.pace.lose, 25
	}
	spec, shards := w.arrangement()
	l, err := shard.New(nil, 1, spec, shards)
	if err != nil {
		panic(err)
	}
	w.register, w.chain = l, []int64{l.Permits}
	w.windows = []interval{{ticks(l), forever}}
	w.clients, w.admins, w.drivers = make([]view, 3), make([]view, 2), make([]driver, 3)
	for i := range w.clients {
		w.clients[i] = w.read()
	}
	for i := range w.admins {
		w.admins[i] = w.read()
	}
	return w
}

func ticks(l shard.Layout) int { return int(l.Window / time.Millisecond) }

func (w *world) read() view { return view{w.register, w.now} }

func (w *world) fresh(v view) bool { return w.neverConfirm || w.now-v.at < w.memory }

// arrangement makes up a limit and its shards: 1 to 4 of 6 places, uneven shares.
func (w *world) arrangement() (shard.Spec, []shard.Shard) {
	n := 1 + w.rng.IntN(4)
	spec := shard.Spec{Permits: int64(n + w.rng.IntN(60)), Window: time.Duration(2+w.rng.IntN(5)) * time.Millisecond,
		Algorithm: "log"}
	if w.register.Epoch > 0 && w.rng.IntN(2) == 0 {
		spec.Permits, spec.Window = max(w.register.Permits, int64(n)), w.register.Window
	}
	if w.rng.IntN(3) == 0 {
		spec.Algorithm = "bucket"
		spec.Burst = int64(w.rng.IntN(2)) * (int64(n) + w.rng.Int64N(60))
	}
	shares := shard.Split(spec.Permits, n)
	if n > 1 && shares[0] > 1 {
		moved := w.rng.Int64N(shares[0])
		shares[0] -= moved
		shares[1] += moved
	}
	shards := make([]shard.Shard, n)
	for i, k := range w.rng.Perm(6)[:n] {
		shards[i] = shard.Shard{Slot: k / 2, Node: string(rune('a' + k%2)), Share: shares[i]}
	}
	return spec, shards
}

func (w *world) cell(at home) *cell {
	c := w.cells[at]
	if c == nil {
		c = &cell{rules: &w.rules}
		w.cells[at] = c
	}
	return c
}

// proposalFor is what a caller that believes in l proposes to shard j.
func (w *world) proposalFor(l shard.Layout, j int) proposal {
	p := proposal{epoch: l.Epoch, target: l.Shards[j].Share, window: ticks(l)}
	if l.Settled || w.eagerCreate {
		p.floor = p.target
	}
	return p
}

func place(s shard.Shard) home {
	return home{shard.Location{Slot: s.Slot, Node: s.Node}, s.Algorithm}
}

// pace is how often what happens in one history, in thousandths. Histories differ, so that
// some are calm enough to complete many transitions and some are stormy.
type pace struct{ tick, change, down, lose, call int }

func newPace(rng *rand.Rand) pace {
	return pace{tick: 5 + rng.IntN(60), change: 1 + rng.IntN(8), down: rng.IntN(6), lose: rng.IntN(10) * rng.IntN(2)}
}

// step lets something happen, and checks what must hold after it.
func (w *world) step() error {
	k := w.rng.IntN(1000)
	happens := func(part int) bool { k -= part; return k < 0 }
	switch {
	case happens(w.tick):
		w.now++
	case happens(w.pace.change):
		w.change(&w.admins[w.rng.IntN(len(w.admins))])
	case happens(w.pace.down):
		w.down[w.somewhere()] = true
	case happens(40):
		delete(w.down, w.somewhere())
	case happens(w.pace.lose):
		if !w.noLoss {
			at := w.somewhere()
			for _, algorithm := range []string{"log", "bucket"} {
				w.cell(home{at, algorithm}).lose(w.now)
			}
		}
	case happens(w.call):
		w.take(&w.clients[w.rng.IntN(len(w.clients))])
	case happens(130):
		w.drive(w.rng.IntN(len(w.drivers)))
	default:
		w.deliver()
	}
	return w.check()
}

// somewhere returns one of the six places.
func (w *world) somewhere() shard.Location {
	k := w.rng.IntN(6)
	return shard.Location{Slot: k / 2, Node: string(rune('a' + k%2))}
}

func (w *world) take(c *view) {
	j := w.rng.IntN(len(c.layout.Shards))
	at := place(c.layout.Shards[j])
	if w.down[at.Location] {
		return
	}
	s := w.cell(at)
	if !w.fresh(*c) && !s.exists(w.now) {
		*c = w.read()
		return
	}
	r := s.propose(w.now, w.memory, w.proposalFor(c.layout, j))
	if n := s.take(w.now, w.memory, 1+w.rng.Int64N(30)); n > 0 {
		w.granted = append(w.granted, grant{w.now, n})
	}
	if r.epoch > c.layout.Epoch && w.rng.IntN(2) == 0 {
		*c = w.read()
	}
}

// drive lets driver i read, observe, raise, settle or die.
func (w *world) drive(i int) {
	d := &w.drivers[i]
	switch k := w.rng.IntN(100); {
	case k == 0:
		*d = driver{}
		return
	case d.layout.Epoch == 0 || k == 1 || !w.fresh(d.view):
		w.look(d)
		return
	}
	if d.layout.Settled {
		return
	}
	step := w.plan(d.layout, d.obs)
	if step.Done && d.layout.Epoch == w.register.Epoch {
		w.settle(d.layout.Settle(0))
		return
	}
	for j, s := range d.layout.Shards {
		p := w.proposalFor(d.layout, j)
		if w.rng.IntN(2) == 0 {
			p.floor = max(p.floor, step.Raise[j])
		}
		if w.rng.IntN(3) > 0 {
			w.wire = append(w.wire, message{place(s), p, i, j, d.at})
		}
	}
}

// look makes d read the register; what it observed of the same epoch stays, however old.
func (w *world) look(d *driver) {
	old := d.layout.Epoch
	d.view = w.read()
	if d.layout.Epoch != old {
		d.obs = make([]shard.Observation, len(d.layout.Shards))
	}
}

func (w *world) settle(l shard.Layout) {
	if w.register.Settled {
		return
	}
	w.before = append(w.before, w.register)
	w.register, w.chain = l, []int64{l.Permits}
	w.settled++
	for i := range w.windows {
		w.windows[i].until = min(w.windows[i].until, w.now+ticks(l))
	}
	w.windows = append(w.windows, interval{ticks(l), forever})
}

// deliver lets something that is on the wire arrive or get lost, in any order.
func (w *world) deliver() {
	if len(w.wire) > 0 && w.rng.IntN(2) == 0 {
		i := w.rng.IntN(len(w.wire))
		m := w.wire[i]
		w.wire = slices.Delete(w.wire, i, i+1)
		if w.rng.IntN(10) == 0 || w.down[m.to.Location] ||
			!w.fresh(view{at: m.confirmed}) && !w.cell(m.to).exists(w.now) {
			return
		}
		r := w.cell(m.to).propose(w.now, w.memory, m.p)
		w.replies = append(w.replies, answer{m.driver, m.shard, m.p.epoch, r.observation()})
	} else if len(w.replies) > 0 {
		i := w.rng.IntN(len(w.replies))
		a := w.replies[i]
		w.replies = slices.Delete(w.replies, i, i+1)
		if d := &w.drivers[a.driver]; d.layout.Epoch == a.epoch && !d.layout.Settled && w.rng.IntN(10) > 0 {
			d.obs[a.shard] = a.obs
		}
	}
}

// change lets an administrator read the register, or write what follows the layout it
// read, which by then may be another.
func (w *world) change(a *view) {
	if w.rng.IntN(2) == 0 {
		*a = w.read()
		return
	}
	if w.anew && w.rng.IntN(2) == 0 {
		w.forget()
		return
	}
	if a.layout.Epoch != w.register.Epoch {
		return
	}
	spec, shards := w.arrangement()
	next, err := a.layout.Change(a.layout.Epoch+1, spec, shards, 0)
	if err != nil {
		panic(err)
	}
	if w.boldChange && !a.layout.Settled {
		for i, s := range next.Shards {
			next.Shards[i].Start = 0
			if j := a.layout.Index(s.Site()); j >= 0 {
				next.Shards[i].Start = a.layout.Shards[j].Share
			}
		}
	}
	if w.newAlgorithm {
		next.Shards = slices.DeleteFunc(next.Shards, func(s shard.Shard) bool { return s.Algorithm != next.Algorithm })
	}
	w.write(next)
	if next.Settled {
		w.chain = []int64{next.Permits}
	}
}

// forget lets the record forget some layouts. One before them goes on, if it lists all the shards
// of those.
func (w *world) forget() {
	i := len(w.before)
	for later := w.register; i > 0 && listsAll(w.before[i-1], later); later = w.before[i] {
		if i--; w.rng.IntN(2) == 0 {
			break
		}
	}
	if i == len(w.before) {
		return
	}
	l := w.before[i]
	next, err := l.Anew(w.register.Epoch+1, 0)
	if err != nil {
		panic(err)
	}
	if w.boldAnew && l.Settled {
		for j := range l.Shards {
			next.Shards[j].Start = l.Shards[j].Share
		}
	}
	w.forgotten++
	w.write(next)
}

// listsAll reports whether l lists all the shards of another layout.
func listsAll(l, of shard.Layout) bool {
	return !slices.ContainsFunc(of.Shards, func(s shard.Shard) bool { return l.Index(s.Site()) < 0 })
}

func (w *world) write(next shard.Layout) {
	w.before = append(w.before, w.register)
	w.register = next
	w.chain = append(w.chain, next.Permits)
	w.windows = append(w.windows, interval{ticks(next), forever})
}

func init() { extent.FewerDraws() }
