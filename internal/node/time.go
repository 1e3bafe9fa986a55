package node

import (
	"sync/atomic"
	"time"
)

// clockFor is for how long the time of a node is taken to go on as this process heard it.
const clockFor = time.Minute

// ServerClock is what time it is on a server, as far as a process heard.
type ServerClock struct {
	ahead atomic.Int64 // of the client's clock, microseconds
	heard atomic.Int64 // when, on the client's clock; 0: never
}

// Learn takes in the time that a reply told which came at this time of the client's clock.
func (n *ServerClock) Learn(received, told int64) {
	n.ahead.Store(told - received/int64(time.Microsecond))
	n.heard.Store(received)
}

// At returns what the server's clock will not have passed before a time of the client's clock.
func (n *ServerClock) At(elapsed, now int64) (told int64, ok bool) {
	heard := n.heard.Load()
	if heard == 0 || now-heard > int64(clockFor) {
		return 0, false
	}
	return elapsed/int64(time.Microsecond) + n.ahead.Load(), true
}
