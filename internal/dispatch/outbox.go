package dispatch

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

const (
	// maxFlights is how many flights of one outbox may be under way at once: to one node, or to one
	// part of a cluster. More of them would be emptier.
	maxFlights = 16
	// leastAboard and maxAboard bound how much they carry together, in what maxLoad counts. With
	// half of that, 1,000 callers on many keys made some 5 % fewer decisions.
	leastAboard, maxAboard = 8, 8 * maxLoad
	// clusterParts is in how many parts a cluster's slots are: what waits for any slot of a part
	// flies together, in a command for each slot. With more parts a flight has less company; with
	// fewer, it has more commands, and more of it waits for a master that does not answer.
	clusterParts = 16
	// maxBatches is how many full batches of one lane a flight takes along: 256 participants who
	// call at once. The first flight of a process takes several round trips: then calls that it
	// does not take along have no time left.
	maxBatches = 8
	// nextDoor is how many flights one after the other fit into a call timeout at least, if the way
	// to the node is as good as none.
	nextDoor = 64
	// farthest is how many times as long as that the way is, at the most, that flights are made
	// for; firstReach, at first, and as far as their number goes.
	farthest, firstReach = 8, 4
	// sure is how many flights must have told how long the way is: the first may have loaded the
	// script.
	sure = 2
	// longWay is from where on up to farBatches of one lane are under way at once, and not one: so
	// who calls waits for a part of the way until a batch departs, and not for half of it.
	longWay    = 500 * time.Microsecond
	farBatches = 4
	// maxLoad bounds how much a flight carries, so that a script call runs no longer than about a
	// millisecond: so many sections, or groups of asks. The batches of the last lane may be more.
	maxLoad = 100
)

// outbox is the lanes whose asks wait to be sent to one node, in the order in which they came. A
// script call leaves when one of them waits, or a yield later, and takes along what waits for any
// of their shards by then.
type outbox struct {
	env  *Env
	part int // of the cluster that the node is; whole: it is none

	mu      sync.Mutex
	waiting []waiting // the one that waits for longest first; `gone` of them have left
	gone    int
	flying  int          // flights under way
	loading bool         // one of them has still to take what waits
	oldest  atomic.Int64 // when the first that waits began to; 0: nothing waits
	capacity
	overload
}

// capacity is how much the flights of an outbox may carry, so that the node answers in time.
type capacity struct {
	aboard  int          // what they carry
	most    int          // that they may
	lowered int64        // when that was last lowered: flights that began before tell nothing new
	way     atomic.Int64 // how long a flight takes that need not wait, nanoseconds; 0: not known
	slow    atomic.Bool  // the last took twice as long, or more
	told    atomic.Int32 // how many told the way, up to `sure`
	came    atomic.Int64 // when a flight came back last that was answered
	stood   atomic.Int64 // when one did after a standstill
}

// stands reports whether nothing has come back for half of a call timeout: the node or the process
// stands still, or nobody asked. From afar that is nothing special.
func (o *capacity) stands(now int64, timeout time.Duration) bool {
	return now-o.came.Load() > int64(timeout/2) && o.way.Load() <= int64(timeout/4)
}

// far reports whether it is known that there is no time for four flights one after the other.
func (o *outbox) far() bool { return o.way.Load() > int64(o.env.CallTimeout/4) }

// near reports whether it is known that there is time for so many flights one after the other.
func (o *outbox) near(flights time.Duration) bool {
	way := o.way.Load()
	return way != 0 && way <= int64(o.env.CallTimeout/flights)
}

// quarters returns for how many quarters of a call timeout an ask may wait in the line. From next
// door nearly all of the rest is left for the node to answer.
func (o *outbox) quarters() int64 {
	if o.near(nextDoor) {
		return 3
	}
	return 2
}

// behind reports whether what waits since that time does so for longer than it may.
func (o *outbox) behind(since, now int64) bool {
	return now-since > min(o.quarters()*int64(o.env.CallTimeout/4), o.boarding())
}

// trusted returns how long a flight takes that need not wait; 0: too few have told.
func (o *capacity) trusted() int64 {
	if o.told.Load() < sure {
		return 0
	}
	return o.way.Load()
}

// boarding returns the age of a call above which it does not depart any more: it is answered in
// time, and holds up nobody on board.
func (o *outbox) boarding() int64 {
	timeout := int64(o.env.CallTimeout)
	return max(min(o.env.Boarding(), timeout-o.trusted()-timeout/32), timeout/8)
}

// tooOld reports whether a call of that age does not depart any more.
func (o *outbox) tooOld(age int64) bool {
	return age > int64(o.env.CallTimeout/8) && age > o.boarding()
}

// reach returns how many times as much may be under way as next door: what is on a long way does
// not keep the node busy.
func (o *capacity) reach(timeout time.Duration) int {
	return int(min(max(o.way.Load()/int64(timeout/nextDoor), 1), farthest))
}

// waitsForTheWay reports whether it is the way that takes long, and neither short nor the node.
func (o *outbox) waitsForTheWay() bool { return o.trusted() >= int64(longWay) && !o.slow.Load() }

// overload is whether more waits in an outbox than can be sent in time, and for how long.
type overload struct {
	line     atomic.Int64 // how many wait
	pace     atomic.Int64 // how many left the line in a quarter of a call timeout
	left     int64        // how many did since pacedAt
	pacedAt  int64
	emptied  int64        // when the last left it
	rested   atomic.Int64 // until when it was empty for a while
	shed     atomic.Int64 // when a call for it was shed last
	shedding atomic.Int64 // and since when, without a pause of a call timeout
}

// waiting is a lane in an outbox, or an ask for a key that has none, and since when asks wait there
// for a place.
type waiting struct {
	lane  *Lane
	key   *KeyAsk
	since int64
}

// whole is the part of a node that is no cluster.
const whole = -1

// add has a lane's batches sent, or an ask for a key. Asks that waited for another call of their
// lane stand before those who came after them.
func (o *outbox) add(w waiting) {
	o.mu.Lock()
	at := len(o.waiting)
	if at == o.gone && w.since-o.emptied > int64(o.env.CallTimeout/16) {
		o.rested.Store(w.since)
	}
	for at > o.gone && o.waiting[at-1].since > w.since {
		at--
	}
	o.waiting = slices.Insert(o.waiting, at, w)
	o.oldest.Store(o.waiting[o.gone].since)
	o.line.Store(int64(len(o.waiting) - o.gone))
	f := o.next()
	o.mu.Unlock()
	if f != nil {
		go o.fly(f)
	}
}

// overdue reports whether what waits is more than can be sent in time. If the first waits for
// longer than it may, newcomers would; a standstill does not count. Where much more comes than can
// be served, the first tells that too late: then no more may wait than leaves the line in a quarter
// of a call timeout, or in two from next door. So it is once calls have been shed for a call
// timeout, without a pause as long as that, and the line was never empty for a while. Between
// bursts that can be served it is.
func (o *outbox) overdue(now int64) bool {
	since, most := o.oldest.Load(), int64(o.env.CallTimeout)
	return since != 0 && (o.behind(max(since, o.stood.Load()), now) && !o.stands(now, o.env.CallTimeout) ||
		now-o.shed.Load() <= most && now-o.shedding.Load() > most && now-o.rested.Load() > most &&
			o.line.Load() > max((o.quarters()-1)*o.pace.Load(), maxLoad))
}

// sheds notes that a call is shed, because the line is overdue.
func (o *outbox) sheds(now int64) {
	last, most := o.shed.Load(), int64(o.env.CallTimeout)
	if last == 0 || now-last > most {
		o.shedding.Store(now)
	}
	if last == 0 || now-last > most/spots { // very many are
		o.shed.Store(now)
	}
}

// next is the flight that is to load what waits; nil if one is about to, or nothing waits, or there
// is enough under way. o.mu is held.
func (o *outbox) next() *flight {
	if o.loading || o.gone == len(o.waiting) || o.flying >= o.flights() || o.aboard >= o.most {
		return nil
	}
	o.loading = true
	o.flying++
	return newFlight(o)
}

// fly sends what waits until nothing does, or another flight is about to.
func (o *outbox) fly(f *flight) {
	if o.gathers() {
		o.yield() // those who are about to call come along
	}
	for f != nil {
		o.load(f)
		if len(f.sections) == 0 {
			f = o.landed(f, true)
			continue
		}
		next, goesOn := f.run()
		if next == nil {
			return // given up: see ring
		}
		if f = next; !goesOn {
			f = o.landed(f, true)
			continue
		}
		// Those who have just been answered are about to come back. Let them, so that the next
		// flight carries all of them and not every other one.
		o.yield()
	}
}

// gathers reports whether the next flight had better wait for company: others are under way, or
// participants contend for the first shard. Then calls cost most, and permits are what is short.
func (o *outbox) gathers() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flying > 1 || o.gone == len(o.waiting) {
		return o.flying > 1
	}
	return o.waiting[o.gone].lane.Known.contended.Load()
}

// yield lets others run first, who may come along.
func (o *outbox) yield() {
	if !o.full() {
		chance.Yield()
	}
}

// full reports whether a flight needs no company: enough for one waits, or something for so long
// that very many others would run first.
func (o *outbox) full() bool {
	since := o.oldest.Load()
	return o.line.Load() >= maxLoad || since != 0 && o.env.Clock.Now()-since >= int64(o.env.CallTimeout/16)
}

// land is called before the answers of a flight are handed out, and reports whether it is to go on
// with what waits by then. Until it does no other flight loads.
func (o *outbox) land(f *flight) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unload(f)
	if o.loading {
		return false
	}
	o.loading = true
	return true
}

// unload counts what a flight carried as landed. What the node cannot serve within an eighth of the
// call timeout waits here, where it can be shed, and not in the connection: so flights that take
// longer have less carried, and quicker ones more, while something waits. o.mu is held.
func (o *capacity) unload(f *flight) {
	if f.load == 0 {
		return
	}
	now, timeout := f.env.Clock.Now(), int64(f.env.CallTimeout)
	took := max(now-f.began, 1)
	way := o.way.Load()
	if !f.failed {
		if o.stands(now, f.env.CallTimeout) {
			o.stood.Store(now)
		}
		o.came.Store(now)
		if way == 0 || took < way {
			way = took
		}
		if o.told.Load() < sure {
			o.way.Store(way)
			o.told.Add(1)
			o.most = maxLoad * min(o.reach(f.env.CallTimeout), firstReach)
		}
		o.slow.Store(took > 2*way)
	}
	switch { // The way may have become longer. What waited for other flights of this process does not tell.
	case f.failed:
	case o.most == leastAboard:
		way += (took - way) / 8
	case f.load <= leastAboard && o.aboard == f.load:
		way += (took - way) / 256
	}
	o.way.Store(way)
	waited, most := took-way, timeout/8
	switch {
	case waited > most:
		if f.began >= o.lowered {
			o.most, o.lowered = max(int(int64(o.most)*most/waited), leastAboard), now
		}
	case o.aboard >= o.most:
		more, reach := leastAboard, o.reach(f.env.CallTimeout)
		if reach > 1 && waited <= most/2 {
			more = max(f.load, more) // from afar there is no time for small steps
		}
		o.most = min(o.most+more, maxAboard*reach)
	}
	o.aboard -= f.load
	f.load = 0
}

// flights returns how many may be under way. To a part of a cluster that is not known to be farther
// than next door, a second one is enough to have it work all the time: with more, each of them
// carries less.
func (o *outbox) flights() int {
	switch {
	case o.part == whole:
		return maxFlights * min(o.reach(o.env.CallTimeout), firstReach)
	case o.way.Load() <= int64(o.env.CallTimeout/nextDoor):
		return 2
	}
	return maxFlights
}

// landed puts a flight by, to be used again or not, and returns the one to go on with, if something
// waits.
func (o *outbox) landed(f *flight, again bool) *flight {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying--
	o.unload(f)
	if again {
		o.env.flights.Put(f)
	}
	return o.next()
}

// load puts what waits on the flight. What finds no room goes with another one at once.
func (o *outbox) load(f *flight) {
	now := o.env.Clock.Now()
	var sure *Lane // see KeyAsk.ready
	for {
		w, more := o.pop(f, now)
		if w.lane == nil {
			if more != nil {
				go o.fly(more)
			}
			return
		}
		if w.key != nil {
			if w.key.ready(now, sure) {
				sure = w.lane
				f.boardKey(w.key)
			}
			continue
		}
		l := w.lane
		for range maxBatches {
			b := l.depart()
			if b == nil {
				break
			}
			if l.ready(b) {
				f.board(l, b)
			}
		}
	}
}

// pop takes what goes next; nothing if there is none for which the flight has room. Then it has
// loaded, and more is the flight that goes on with what waits, if any does.
func (o *outbox) pop(f *flight, now int64) (next waiting, more *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone == len(o.waiting) || f.load >= min(maxLoad, o.most-o.aboard) {
		o.loading = false
		o.aboard += f.load
		return waiting{}, o.next()
	}
	next = o.waiting[o.gone]
	o.waiting[o.gone] = waiting{}
	if o.gone++; 2*o.gone >= len(o.waiting) { // or it would grow for ever if something always waits
		left := copy(o.waiting, o.waiting[o.gone:])
		clear(o.waiting[left:])
		o.waiting, o.gone = o.waiting[:left], 0
	}
	o.oldest.Store(0)
	if o.gone < len(o.waiting) {
		o.oldest.Store(o.waiting[o.gone].since)
	}
	line := int64(len(o.waiting) - o.gone)
	if o.line.Store(line); line == 0 {
		o.emptied = now
	}
	if each, took := int64(o.env.CallTimeout/4), now-o.pacedAt; took >= each {
		if took < 2*each { // else nothing left for a while: that is no pace
			o.pace.Store(o.left * each / took)
		}
		o.left, o.pacedAt = 0, now
	}
	o.left++
	return next, nil
}
