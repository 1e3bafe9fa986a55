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
	maxRequests = 16
	// leastAboard and maxAboard bound how much they carry together, in what maxLoad counts. With
	// half of that, 1,000 callers on many keys made some 5 % fewer decisions.
	leastInFlight, maxInFlight = 8, 8 * maxLoad
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
	nearby = 64
	// farthest is how many times as long as that the way is, at the most, that flights are made
	// for; firstReach, at first, and as far as their number goes.
	farthest, firstReach = 8, 4
	// sure is how many flights must have told how long the way is: the first may have loaded the
	// script.
	minSamples = 2
	// longWay is from where on up to farBatches of one lane are under way at once, and not one: so
	// who calls waits for a part of the way until a batch departs, and not for half of it.
	longRTT    = 500 * time.Microsecond
	farBatches = 4
	// maxLoad bounds how much a flight carries, so that a script call runs no longer than about a
	// millisecond: so many sections, or groups of asks. The batches of the last lane may be more.
	maxLoad = 100
)

// outbox is the lanes whose asks wait to be sent to one node, in the order in which they came. A
// script call leaves when one of them waits, or a yield later, and takes along what waits for any
// of their shards by then.
type sendQueue struct {
	env  *Env
	part int // of the cluster that the node is; whole: it is none

	mu       sync.Mutex
	waiting  []waiting // the one that waits for longest first; `gone` of them have left
	gone     int
	underWay int          // flights under way
	filling  bool         // one of them has still to take what waits
	oldest   atomic.Int64 // when the first that waits began to; 0: nothing waits
	capacity
	overload
}

// capacity is how much the flights of an outbox may carry, so that the node answers in time.
type capacity struct {
	inFlight int          // what they carry
	most     int          // that they may
	lowered  int64        // when that was last lowered: flights that began before tell nothing new
	rtt      atomic.Int64 // how long a flight takes that need not wait, nanoseconds; 0: not known
	slow     atomic.Bool  // the last took twice as long, or more
	samples  atomic.Int32 // how many told the way, up to `sure`
	came     atomic.Int64 // when a flight came back last that was answered
	resumed  atomic.Int64 // when one did after a standstill
}

// stands reports whether nothing has come back for half of a call timeout: the node or the process
// stands still, or nobody asked. From afar that is nothing special.
func (o *capacity) stalled(now int64, timeout time.Duration) bool {
	return now-o.came.Load() > int64(timeout/2) && o.rtt.Load() <= int64(timeout/4)
}

// far reports whether it is known that there is no time for four flights one after the other.
func (q *sendQueue) far() bool { return q.rtt.Load() > int64(q.env.CallTimeout/4) }

// near reports whether it is known that there is time for so many flights one after the other.
func (q *sendQueue) near(flights time.Duration) bool {
	way := q.rtt.Load()
	return way != 0 && way <= int64(q.env.CallTimeout/flights)
}

// quarters returns for how many quarters of a call timeout an ask may wait in the line. From next
// door nearly all of the rest is left for the node to answer.
func (q *sendQueue) quarters() int64 {
	if q.near(nearby) {
		return 3
	}
	return 2
}

// behind reports whether what waits since that time does so for longer than it may.
func (q *sendQueue) behind(since, now int64) bool {
	return now-since > min(q.quarters()*int64(q.env.CallTimeout/4), q.sendBy())
}

// trusted returns how long a flight takes that need not wait; 0: too few have told.
func (o *capacity) knownRTT() int64 {
	if o.samples.Load() < minSamples {
		return 0
	}
	return o.rtt.Load()
}

// boarding returns the age of a call above which it does not depart any more: it is answered in
// time, and holds up nobody on board.
func (q *sendQueue) sendBy() int64 {
	timeout := int64(q.env.CallTimeout)
	return max(min(q.env.SendBy(), timeout-q.knownRTT()-timeout/32), timeout/8)
}

// tooOld reports whether a call of that age does not depart any more.
func (q *sendQueue) tooOld(age int64) bool {
	return age > int64(q.env.CallTimeout/8) && age > q.sendBy()
}

// reach returns how many times as much may be under way as next door: what is on a long way does
// not keep the node busy.
func (o *capacity) reach(timeout time.Duration) int {
	return int(min(max(o.rtt.Load()/int64(timeout/nearby), 1), farthest))
}

// waitsForTheWay reports whether it is the way that takes long, and neither short nor the node.
func (q *sendQueue) boundByRTT() bool { return q.knownRTT() >= int64(longRTT) && !q.slow.Load() }

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
	shard *Shard
	key   *KeyAsk
	since int64
}

// whole is the part of a node that is no cluster.
const whole = -1

// add has a lane's batches sent, or an ask for a key. Asks that waited for another call of their
// lane stand before those who came after them.
func (q *sendQueue) add(w waiting) {
	q.mu.Lock()
	at := len(q.waiting)
	if at == q.gone && w.since-q.emptied > int64(q.env.CallTimeout/16) {
		q.rested.Store(w.since)
	}
	for at > q.gone && q.waiting[at-1].since > w.since {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.oldest.Store(q.waiting[q.gone].since)
	q.line.Store(int64(len(q.waiting) - q.gone))
	req := q.next()
	q.mu.Unlock()
	if req != nil {
		go q.send(req)
	}
}

// overdue reports whether what waits is more than can be sent in time. If the first waits for
// longer than it may, newcomers would; a standstill does not count. Where much more comes than can
// be served, the first tells that too late: then no more may wait than leaves the line in a quarter
// of a call timeout, or in two from next door. So it is once calls have been shed for a call
// timeout, without a pause as long as that, and the line was never empty for a while. Between
// bursts that can be served it is.
func (q *sendQueue) overdue(now int64) bool {
	since, most := q.oldest.Load(), int64(q.env.CallTimeout)
	return since != 0 && (q.behind(max(since, q.resumed.Load()), now) && !q.stalled(now, q.env.CallTimeout) ||
		now-q.shed.Load() <= most && now-q.shedding.Load() > most && now-q.rested.Load() > most &&
			q.line.Load() > max((q.quarters()-1)*q.pace.Load(), maxLoad))
}

// sheds notes that a call is shed, because the line is overdue.
func (q *sendQueue) sheds(now int64) {
	last, most := q.shed.Load(), int64(q.env.CallTimeout)
	if last == 0 || now-last > most {
		q.shedding.Store(now)
	}
	if last == 0 || now-last > most/spots { // very many are
		q.shed.Store(now)
	}
}

// next is the flight that is to load what waits; nil if one is about to, or nothing waits, or there
// is enough under way. o.mu is held.
func (q *sendQueue) next() *request {
	if q.filling || q.gone == len(q.waiting) || q.underWay >= q.mostRequests() || q.inFlight >= q.most {
		return nil
	}
	q.filling = true
	q.underWay++
	return newRequest(q)
}

// fly sends what waits until nothing does, or another flight is about to.
func (q *sendQueue) send(req *request) {
	if q.gathers() {
		q.yield() // those who are about to call come along
	}
	for req != nil {
		q.fill(req)
		if len(req.sections) == 0 {
			req = q.ended(req, true)
			continue
		}
		next, goesOn := req.run()
		if next == nil {
			return // given up: see ring
		}
		if req = next; !goesOn {
			req = q.ended(req, true)
			continue
		}
		// Those who have just been answered are about to come back. Let them, so that the next
		// flight carries all of them and not every other one.
		q.yield()
	}
}

// gathers reports whether the next flight had better wait for company: others are under way, or
// participants contend for the first shard. Then calls cost most, and permits are what is short.
func (q *sendQueue) gathers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.underWay > 1 || q.gone == len(q.waiting) {
		return q.underWay > 1
	}
	return q.waiting[q.gone].shard.Known.contended.Load()
}

// yield lets others run first, who may come along.
func (q *sendQueue) yield() {
	if !q.full() {
		chance.Yield()
	}
}

// full reports whether a flight needs no company: enough for one waits, or something for so long
// that very many others would run first.
func (q *sendQueue) full() bool {
	since := q.oldest.Load()
	return q.line.Load() >= maxLoad || since != 0 && q.env.Clock.Now()-since >= int64(q.env.CallTimeout/16)
}

// land is called before the answers of a flight are handed out, and reports whether it is to go on
// with what waits by then. Until it does no other flight loads.
func (q *sendQueue) answered(req *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unload(req)
	if q.filling {
		return false
	}
	q.filling = true
	return true
}

// unload counts what a flight carried as landed. What the node cannot serve within an eighth of the
// call timeout waits here, where it can be shed, and not in the connection: so flights that take
// longer have less carried, and quicker ones more, while something waits. o.mu is held.
func (o *capacity) unload(req *request) {
	if req.load == 0 {
		return
	}
	now, timeout := req.env.Clock.Now(), int64(req.env.CallTimeout)
	took := max(now-req.began, 1)
	way := o.rtt.Load()
	if !req.failed {
		if o.stalled(now, req.env.CallTimeout) {
			o.resumed.Store(now)
		}
		o.came.Store(now)
		if way == 0 || took < way {
			way = took
		}
		if o.samples.Load() < minSamples {
			o.rtt.Store(way)
			o.samples.Add(1)
			o.most = maxLoad * min(o.reach(req.env.CallTimeout), firstReach)
		}
		o.slow.Store(took > 2*way)
	}
	switch { // The way may have become longer. What waited for other flights of this process does not tell.
	case req.failed:
	case o.most == leastInFlight:
		way += (took - way) / 8
	case req.load <= leastInFlight && o.inFlight == req.load:
		way += (took - way) / 256
	}
	o.rtt.Store(way)
	waited, most := took-way, timeout/8
	switch {
	case waited > most:
		if req.began >= o.lowered {
			o.most, o.lowered = max(int(int64(o.most)*most/waited), leastInFlight), now
		}
	case o.inFlight >= o.most:
		more, reach := leastInFlight, o.reach(req.env.CallTimeout)
		if reach > 1 && waited <= most/2 {
			more = max(req.load, more) // from afar there is no time for small steps
		}
		o.most = min(o.most+more, maxInFlight*reach)
	}
	o.inFlight -= req.load
	req.load = 0
}

// flights returns how many may be under way. To a part of a cluster that is not known to be farther
// than next door, a second one is enough to have it work all the time: with more, each of them
// carries less.
func (q *sendQueue) mostRequests() int {
	switch {
	case q.part == whole:
		return maxRequests * min(q.reach(q.env.CallTimeout), firstReach)
	case q.rtt.Load() <= int64(q.env.CallTimeout/nearby):
		return 2
	}
	return maxRequests
}

// landed puts a flight by, to be used again or not, and returns the one to go on with, if something
// waits.
func (q *sendQueue) ended(req *request, again bool) *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.underWay--
	q.unload(req)
	if again {
		q.env.requests.Put(req)
	}
	return q.next()
}

// load puts what waits on the flight. What finds no room goes with another one at once.
func (q *sendQueue) fill(req *request) {
	now := q.env.Clock.Now()
	var sure *Shard // see KeyAsk.ready
	for {
		w, more := q.pop(req, now)
		if w.shard == nil {
			if more != nil {
				go q.send(more)
			}
			return
		}
		if w.key != nil {
			if w.key.ready(now, sure) {
				sure = w.shard
				req.addKey(w.key)
			}
			continue
		}
		sh := w.shard
		for range maxBatches {
			b := sh.nextBatch()
			if b == nil {
				break
			}
			if sh.ready(b) {
				req.add(sh, b)
			}
		}
	}
}

// pop takes what goes next; nothing if there is none for which the flight has room. Then it has
// loaded, and more is the flight that goes on with what waits, if any does.
func (q *sendQueue) pop(req *request, now int64) (next waiting, more *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone == len(q.waiting) || req.load >= min(maxLoad, q.most-q.inFlight) {
		q.filling = false
		q.inFlight += req.load
		return waiting{}, q.next()
	}
	next = q.waiting[q.gone]
	q.waiting[q.gone] = waiting{}
	if q.gone++; 2*q.gone >= len(q.waiting) { // or it would grow for ever if something always waits
		left := copy(q.waiting, q.waiting[q.gone:])
		clear(q.waiting[left:])
		q.waiting, q.gone = q.waiting[:left], 0
	}
	q.oldest.Store(0)
	if q.gone < len(q.waiting) {
		q.oldest.Store(q.waiting[q.gone].since)
	}
	line := int64(len(q.waiting) - q.gone)
	if q.line.Store(line); line == 0 {
		q.emptied = now
	}
	if each, took := int64(q.env.CallTimeout/4), now-q.pacedAt; took >= each {
		if took < 2*each { // else nothing left for a while: that is no pace
			q.pace.Store(q.left * each / took)
		}
		q.left, q.pacedAt = 0, now
	}
	q.left++
	return next, nil
}
