package dispatch

import (
	"sync/atomic"
	"time"
)

const (
	// maxRequests is how many requests of one send queue may be under way at once. More of them
	// would be emptier.
	maxRequests = 16
	// leastUnderWay and mostUnderWay bound what they carry together, as maxLoad counts it. With
	// half of that, 1,000 callers on many keys made some 5 % fewer decisions.
	leastUnderWay, mostUnderWay = 8, 8 * maxLoad
	// nearby is how many round trips fit into a call timeout at least, if the network adds hardly
	// anything.
	nearby = 64
	// farthest bounds reach; firstReach does at first, and always for the number of requests.
	farthest, firstReach = 8, 4
	// minSamples is how many requests must have measured the round trip. The first may have loaded
	// the script.
	minSamples = 2
	// longRTT is the least round trip with which farBatches of one shard may be under way, and not
	// one. So a caller waits for a part of it until a batch is sent, and not for half.
	longRTT    = 500 * time.Microsecond
	farBatches = 4
)

// capacity is how much the requests of a send queue may carry, so that the node answers in time.
type capacity struct {
	loadUnderWay int          // what requests under way carry
	mostLoad     int          // what they may carry
	lowered      int64        // when most was last lowered; requests that began before tell nothing new
	rtt          atomic.Int64 // of a request that need not wait, nanoseconds; 0: not known
	slow         atomic.Bool  // the last one took more than twice the rtt
	samples      atomic.Int32 // requests that measured the rtt, up to minSamples
	came         atomic.Int64 // when the last answer came
	resumed      atomic.Int64 // when the last one came after a stall
}

// stalled reports whether nothing has come back for half of a call timeout: the node or the process
// stands still, or nobody asked. With a long round trip that is nothing special.
func (c *capacity) stalled(now int64, timeout time.Duration) bool {
	return now-c.came.Load() > int64(timeout/2) && c.rtt.Load() <= int64(timeout/4)
}

// near reports whether so many round trips are known to fit into a call timeout.
func (c *capacity) near(timeout time.Duration, trips int64) bool {
	rtt := c.rtt.Load()
	return rtt != 0 && rtt <= int64(timeout)/trips
}

// quarters returns for how many quarters of a call timeout an ask may wait in the queue. A node
// that is near needs hardly any of the rest.
func (c *capacity) quarters(timeout time.Duration) int64 {
	if c.near(timeout, nearby) {
		return 3
	}
	return 2
}

// knownRTT returns the round trip of a request that need not wait; 0: too few have measured it.
func (c *capacity) knownRTT() int64 {
	if c.samples.Load() < minSamples {
		return 0
	}
	return c.rtt.Load()
}

// boundByRTT reports whether it is the network that takes long, and not the node.
func (c *capacity) boundByRTT() bool { return c.knownRTT() >= int64(longRTT) && !c.slow.Load() }

// reach returns how many times as much may be under way as to a node that is near: what is on its
// way does not keep the node busy.
func (c *capacity) reach(timeout time.Duration) int {
	return int(min(max(c.rtt.Load()/int64(timeout/nearby), 1), farthest))
}

// unload takes what a request carried out of what is under way, whether it was answered or not.
// What the node cannot serve within an eighth of the call timeout is to wait in the queue, where it
// can be shed, and not in the connection. So slower requests lower what may be under way, and
// quicker ones raise it while something waits. The queue's lock is held.
func (c *capacity) unload(req *request) {
	if req.load == 0 {
		return
	}
	now, timeout := req.env.Clock.Now(), req.env.CallTimeout
	took := max(now-req.began, 1)
	if !req.failed {
		c.measure(req, took, now)
	}
	waited, most := took-c.rtt.Load(), int64(timeout/8)
	switch {
	case waited > most:
		if req.began >= c.lowered {
			c.mostLoad, c.lowered = max(int(int64(c.mostLoad)*most/waited), leastUnderWay), now
		}
	case c.loadUnderWay >= c.mostLoad:
		more, reach := leastUnderWay, c.reach(timeout)
		if reach > 1 && waited <= most/2 {
			more = max(req.load, more) // with a long round trip there is no time for small steps
		}
		c.mostLoad = min(c.mostLoad+more, mostUnderWay*reach)
	}
	c.loadUnderWay -= req.load
	req.load = 0
}

// measure learns from a request that was answered after so long. The least is the round trip. It
// may have become longer: that is learned slowly, from a small request that was alone, or when the
// least is under way.
func (c *capacity) measure(req *request, took, now int64) {
	timeout, rtt := req.env.CallTimeout, c.rtt.Load()
	if c.stalled(now, timeout) {
		c.resumed.Store(now)
	}
	c.came.Store(now)
	if rtt == 0 || took < rtt {
		rtt = took
	}
	if c.samples.Load() < minSamples {
		c.rtt.Store(rtt)
		c.samples.Add(1)
		c.mostLoad = maxLoad * min(c.reach(timeout), firstReach)
	}
	c.slow.Store(took > 2*rtt)
	switch {
	case c.mostLoad == leastUnderWay:
		rtt += (took - rtt) / 8
	case req.load <= leastUnderWay && c.loadUnderWay == req.load:
		rtt += (took - rtt) / 256
	}
	c.rtt.Store(rtt)
}
