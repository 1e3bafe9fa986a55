package dispatch

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/chance"
)

const (
	// clusterParts is the number of parts that the slots of a cluster are in. Asks for all slots of
	// a part share a request, with a command for each slot. More parts make emptier requests; fewer
	// make requests with more commands, more of which wait for a master that does not answer.
	clusterParts = 16
	// maxBatches is the number of full batches of one shard that a request takes along: 256
	// participants who call at once. The first request of a process takes several round trips, so a
	// call that it does not take along has no time left.
	maxBatches = 8
	// maxLoad bounds what a request carries, so that a script call runs for about a millisecond at
	// the most: so many sections, or groups of asks. The batches of the last shard may be more.
	maxLoad = 100
	// whole is the part of a node that is no cluster.
	whole = -1
)

// sendQueue is the asks that wait to be sent to one node, or to one part of a cluster, oldest
// first. A request leaves as soon as an ask waits, or a yield later, unless enough is under way. It
// takes along what waits for any shard by then.
type sendQueue struct {
	env  *Env
	part int // of the cluster; or whole

	mu       sync.Mutex
	waiting  []waiting // the oldest first, behind `gone` that have left
	gone     int
	requests int          // requests
	filling  bool         // a request has still to take what waits
	oldest   atomic.Int64 // since when the first one waits; 0: nothing waits
	length   atomic.Int64 // how many wait
	capacity
	over overload
}

// waiting is a shard with a batch in the queue, or a key ask, and since when it waits.
type waiting struct {
	shard *Shard
	key   *KeyAsk
	since int64
}

// add queues a shard's batches, or a key ask. One that waited elsewhere before stands in front of
// those that came after it.
func (q *sendQueue) add(w waiting) {
	q.mu.Lock()
	at := len(q.waiting)
	if at == q.gone {
		q.over.begins(w.since, int64(q.env.CallTimeout/16))
	}
	for at > q.gone && q.waiting[at-1].since > w.since {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.oldest.Store(q.waiting[q.gone].since)
	q.length.Store(int64(len(q.waiting) - q.gone))
	req := q.next()
	q.mu.Unlock()
	if req != nil {
		go q.send(req)
	}
}

// behind reports whether what waits since that time has waited for longer than it may.
func (q *sendQueue) behind(since, now int64) bool {
	return now-since > min(q.quarters(q.env.CallTimeout)*int64(q.env.CallTimeout/4), q.maxAge())
}

// maxAge returns the age of a call above which it is not sent any more. A call that is sent is
// answered in time, and holds up no other one of its request.
func (q *sendQueue) maxAge() int64 {
	timeout := int64(q.env.CallTimeout)
	return max(min(q.env.MaxAge(), timeout-q.knownRTT()-timeout/32), timeout/8)
}

// tooOld reports whether a call of that age is not sent any more.
func (q *sendQueue) tooOld(age int64) bool {
	return age > int64(q.env.CallTimeout/8) && age > q.maxAge()
}

// far reports whether there is known to be no time for four round trips.
func (q *sendQueue) far() bool { return q.rtt.Load() > int64(q.env.CallTimeout/4) }

// near reports whether there is known to be time for so many round trips.
func (q *sendQueue) near(trips int64) bool { return q.capacity.near(q.env.CallTimeout, trips) }

// overdue reports whether more waits than can be sent in time: the oldest has waited for too long,
// and that is no stall. Where load lasts that comes too late: then no more may wait than is sent in
// the time that the oldest may wait, less an eighth of a call timeout, or than one request carries.
func (q *sendQueue) overdue(now int64) bool {
	since := q.oldest.Load()
	if since == 0 {
		return false
	}
	late := q.behind(max(since, q.resumed.Load()), now) && !q.stalled(now, q.env.CallTimeout)
	return late || q.over.lasts(now, int64(q.env.CallTimeout)) &&
		q.length.Load() > max((2*q.quarters(q.env.CallTimeout)-1)*q.over.rate.Load()/2, maxLoad)
}

// next returns the request that is to take what waits; nil if nothing waits, another request is
// about to take it, or enough is under way. q.mu is held.
func (q *sendQueue) next() *request {
	if q.filling || q.gone == len(q.waiting) || q.requests >= q.mostRequests() || q.loadUnderWay >= q.mostLoad {
		return nil
	}
	q.filling = true
	q.requests++
	return newRequest(q.env, q)
}

// mostRequests returns how many may be under way. In a part of a near cluster a second one keeps
// the servers at work; more of them would each carry less.
func (q *sendQueue) mostRequests() int {
	switch {
	case q.part == whole:
		return maxRequests * min(q.reach(q.env.CallTimeout), firstReach)
	case q.rtt.Load() <= int64(q.env.CallTimeout/nearby):
		return 2
	}
	return maxRequests
}

// send sends what waits until nothing does, or another request is about to take it.
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
			return // given up: see watchdog.ring
		}
		if req = next; !goesOn {
			req = q.ended(req, true)
			continue
		}
		// Those who have just been answered are about to come back. Let them, so that the next
		// request carries all of them and not every other one.
		q.yield()
	}
}

// gathers reports whether the next request had better wait for company: others are under way, or
// participants contend for the first shard. Then calls cost most, and permits are what is short.
func (q *sendQueue) gathers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests > 1 || q.gone == len(q.waiting) {
		return q.requests > 1
	}
	return q.waiting[q.gone].shard.Known.contended.Load()
}

// yield lets others run first, who may come along.
func (q *sendQueue) yield() {
	if !q.full() {
		chance.Yield()
	}
}

// full reports whether a request needs no company: as much waits as it carries, or something has
// waited for so long that very many others would run first.
func (q *sendQueue) full() bool {
	since := q.oldest.Load()
	return q.length.Load() >= maxLoad || since != 0 && q.env.Clock.Now()-since >= int64(q.env.CallTimeout/16)
}

// answered is called before the answers of a request are handed out. It reports whether that
// request goes on with what waits by then; until it has, no other one takes anything.
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

// ended puts a request by, to be used again or not. It returns the one that goes on with what
// waits, if anything does.
func (q *sendQueue) ended(req *request, again bool) *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests--
	q.unload(req)
	if again {
		q.env.requests.Put(req)
	}
	return q.next()
}

// fill puts what waits into the request. What finds no room goes with another one at once.
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

// pop takes the oldest out of the queue. It takes nothing if there is none, or no room for it in
// the request: that is filled then, and more is the request for what still waits, if anything does.
func (q *sendQueue) pop(req *request, now int64) (oldest waiting, more *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone == len(q.waiting) || req.load >= min(maxLoad, q.mostLoad-q.loadUnderWay) {
		q.filling = false
		q.loadUnderWay += req.load
		q.over.sends(len(req.sections), q.gone == len(q.waiting), now, int64(q.env.CallTimeout/4))
		return waiting{}, q.next()
	}
	oldest = q.waiting[q.gone]
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
	q.length.Store(int64(len(q.waiting) - q.gone))
	if q.gone == len(q.waiting) {
		q.over.emptied = math.MaxInt64 // see sends
	}
	return oldest, nil
}
