package lane

import (
	"runtime"
	"sync"
	"time"
)

const (
	// maxFlights is how many script calls of one outbox may be under way at once: to one node, or
	// in a cluster to one slot.
	maxFlights = 64
	// maxBatches is how many full batches of one lane a flight takes along.
	maxBatches = 4
	// maxLoad bounds how much a flight carries, so that a script call runs no longer than about a
	// millisecond: so many sections, or groups of asks.
	maxLoad = 100
)

// outbox is the lanes whose asks wait to be sent to one node, in the order in which they came. A
// script call leaves as soon as one of them waits, and takes along what waits for any of their
// shards by then.
type outbox struct {
	env  *Env
	slot int // of the shards in it; anySlot: those of the server or servers of the node

	mu      sync.Mutex
	waiting []*Lane // the first of which have gone
	gone    int
	flying  int  // flights under way
	loading bool // one of them has still to take what waits
}

// anySlot is the slot of an outbox whose shards can be named in one call whatever their slots are.
const anySlot = -1

// outbox is where the lane's batches leave from. On a cluster, one script call can only name keys
// of one slot.
func (l *Lane) outbox() *outbox {
	slot := anySlot
	if l.Node.Spread() {
		slot = l.Slot
	}
	o := l.box.Load()
	if o == nil || o.slot != slot {
		o = l.Node.Kept(slot, func() any { return &outbox{env: l.env, slot: slot} }).(*outbox)
		l.box.Store(o)
	}
	return o
}

// strayed reports whether the sections cannot go in one call: since they were put together, the
// node was found to be a cluster.
func (o *outbox) strayed(sections []*section) bool {
	if o.slot != anySlot || !sections[0].lane.Node.Spread() {
		return false
	}
	for _, s := range sections[1:] {
		if s.lane.Slot != sections[0].lane.Slot {
			return true
		}
	}
	return false
}

// add has the lane's batches sent.
func (o *outbox) add(l *Lane) {
	o.mu.Lock()
	o.waiting = append(o.waiting, l)
	f := o.next()
	o.mu.Unlock()
	if f != nil {
		go o.fly(f)
	}
}

// next is the flight that is to load what waits; nil if one is about to, or nothing waits, or there
// are enough under way. o.mu is held.
func (o *outbox) next() *flight {
	if o.loading || o.gone == len(o.waiting) || o.flying == maxFlights {
		return nil
	}
	o.loading = true
	o.flying++
	return newFlight(o)
}

// fly sends what waits until nothing does, or another flight is about to.
func (o *outbox) fly(f *flight) {
	if o.busy() {
		runtime.Gosched() // those who are about to call come along
	}
	for f != nil {
		o.load(f)
		if len(f.sections) == 0 {
			f = o.landed(f)
			continue
		}
		next, goesOn := f.run()
		if next == nil {
			return // given up: see ring
		}
		if f = next; !goesOn {
			f = o.landed(f)
			continue
		}
		// Those who have just been answered are about to come back. Let them, so that the next
		// flight carries all of them and not every other one.
		runtime.Gosched()
	}
}

// land is called before the answers of a flight are handed out, and reports whether it is to go on
// with what waits by then. Until it does no other flight loads.
func (o *outbox) land() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loading {
		return false
	}
	o.loading = true
	return true
}

// busy reports whether other flights are under way.
func (o *outbox) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flying > 1
}

// landed puts a flight by, and returns the one to go on with, if something waits.
func (o *outbox) landed(f *flight) *flight {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying--
	if f != nil {
		o.env.flights.Put(f)
	}
	return o.next()
}

// load puts what waits on the flight. What finds no room goes with another one at once.
func (o *outbox) load(f *flight) {
	for load := 0; load < maxLoad; {
		l := o.pop()
		if l == nil {
			return
		}
		for range maxBatches {
			b := l.depart()
			if b == nil {
				break
			}
			if l.ready(b) {
				f.board(l, b)
				load += len(b.classes)
			}
		}
	}
	o.mu.Lock()
	o.loading = false
	more := o.next()
	o.mu.Unlock()
	if more != nil {
		go o.fly(more)
	}
}

// pop takes the lane that goes next; nil if there is none, and then the flight has loaded.
func (o *outbox) pop() *Lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone == len(o.waiting) {
		o.loading = false
		return nil
	}
	l := o.waiting[o.gone]
	o.waiting[o.gone] = nil
	if o.gone++; 2*o.gone >= len(o.waiting) { // or it would grow for ever if something always waits
		left := copy(o.waiting, o.waiting[o.gone:])
		clear(o.waiting[left:])
		o.waiting, o.gone = o.waiting[:left], 0
	}
	return l
}

// ready reports whether a batch can fly with others. Else it was answered, or goes by itself.
func (l *Lane) ready(b *batch) bool {
	e := l.env
	now := e.Clock.Now()
	switch {
	case !l.Node.Ready(l.Slot): // since they joined, others were not answered
		away := l.Node.Away(l.Slot)
		l.land(b, nil, l.Fail(&notSentError{cause: errBehind, reason: away}))
		l.endWaiting(away)
	case b.singles() && (l.known.shut(now) || b.heldBack(now)):
		l.deny(b, now)
	case e.Hurried(e.CallTimeout - time.Duration(now-b.oldest)), l.Untold && l.Limit.Expired(e.Clock.Elapsed()):
		go l.detour(b, 0, nil)
	default:
		return true
	}
	return false
}
