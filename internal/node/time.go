package node

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

const (
	// Relied is for how long a process relies on what it read of nodes and layouts, counted from
	// when the read began.
	Relied = 5 * time.Second
	// steadyFor is for how long the time of a node is taken to go on as this process heard it.
	// After that it may drift by 1 %, up to clockFor: then too little is left of what is relied on.
	steadyFor = time.Minute
	clockFor  = 4 * time.Minute
	// unsteady is by how much replies may tell of a later time of a node because they came sooner.
	unsteady = 100 * time.Millisecond
)

// ServerClock is what time it is on a server, as far as a process heard.
//
// A machine may stand still without its clocks telling: a hypervisor can stop both. What such a
// process read counts for longer than it believes then. So the end of that, in the time of a
// server, is worked out with what the server's clock said before the read began. A later reply
// would move it on by as long as the machine stood still. Only the first reply of all is taken at
// its word, as long as it is the only reading: else each first call would have to read once more.
type ServerClock struct{ told atomic.Pointer[readings] }

// readings are the last two. The one before serves what was read before the last one came.
type readings struct{ last, before reading }

// reading is by how much a server's clock is ahead of the client's, at the least.
type reading struct {
	ahead int64         // microseconds
	since clock.Elapsed // when that was heard, on the client's clock; 0: never
}

// Learn takes in the time that a reply told which came at this time of the client's clock.
func (n *ServerClock) Learn(received clock.Elapsed, told clock.ServerTime) {
	heard := reading{int64(told) - int64(received)/int64(time.Microsecond), received}
	for {
		old := n.told.Load()
		next := old.with(heard)
		if old != nil && next == *old || n.told.CompareAndSwap(old, &next) {
			return
		}
	}
}

// with are the readings with another one. While the last is so young that what was read before it
// may still be relied on, it only gives way to one by which the server gained on the client: that
// is how a client that stood still shows.
func (r *readings) with(heard reading) readings {
	if r == nil {
		return readings{last: heard}
	}
	next := readings{heard, r.last}
	young := heard.since-r.last.since < clock.Elapsed(Relied)
	if young && heard.ahead <= r.last.ahead+int64(unsteady/time.Microsecond) {
		next = *r
	}
	next.last.ahead = min(next.last.ahead, heard.ahead)
	next.last.since = min(next.last.since, heard.since)
	next.before.ahead = min(next.before.ahead, heard.ahead)
	return next
}

// At returns what the server's clock will not have passed before a time of the client's clock until
// which something is relied on. It is false if the server's clock was not heard before that was
// read, but for the first time.
func (n *ServerClock) At(until, now clock.Elapsed) (told clock.ServerTime, ok bool) {
	r := n.told.Load()
	if r == nil {
		return 0, false
	}
	began, only := until-clock.Elapsed(Relied), r.before.since == 0
	for _, heard := range [...]reading{r.last, r.before} {
		if heard.since != 0 && (only || heard.since <= began) && now-heard.since <= clock.Elapsed(clockFor) {
			drift := max(now-heard.since-clock.Elapsed(steadyFor), 0) / 100
			return clock.ServerTime(int64(until-drift)/int64(time.Microsecond) + heard.ahead), true
		}
	}
	return 0, false
}

// Heard reports whether the time of the server is known well enough for what will be read from now
// on.
func (n *ServerClock) Heard(now clock.Elapsed) bool {
	_, ok := n.At(now+clock.Elapsed(Relied), now)
	return ok
}
