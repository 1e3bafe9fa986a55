// Package clock is the time of a process: one that stands still while its machine is suspended, and
// one that goes on.
package clock

import (
	"sync/atomic"
	"time"
)

// ServerTime is an instant on the clock of one server, in microseconds since 1970. The clocks of
// two servers need not agree, and none agrees with that of a process: see node.ServerClock.
type ServerTime int64

// Elapsed is an instant of a process whose time goes on while its machine is suspended: nanoseconds
// since its Client was made, never zero. What a process believes ends by it.
type Elapsed int64

// Clock tells the time since a Client was made, in nanoseconds, never zero. It is safe for
// concurrent use.
type Clock struct {
	Base   time.Time
	ahead  atomic.Int64 // of the wall clock over the monotonic one, when that was last noticed to change
	asleep atomic.Int64 // how long the machine was suspended
	looked atomic.Int64 // when the two were last compared
	still  atomic.Int64 // by how much the monotonic clock is held back; only tests do that
	unseen atomic.Int64 // how much of that the wall clock is, too
}

const (
	// jitter is by how much the two clocks of a machine may drift apart unnoticed.
	jitter = 100 * time.Millisecond
	// glance is how often they are compared at most. It is less than it takes to suspend a machine.
	glance = 100 * time.Microsecond
)

// Now does not jump. It stands still while the machine is suspended.
func (c *Clock) Now() int64 { return int64(time.Since(c.Base)) + 1 - c.still.Load() }

// At returns an instant of Now as others tell it.
func (c *Clock) At(at int64) time.Time {
	return c.Base.Add(time.Duration(at - 1 + c.still.Load()))
}

// Elapsed returns Now with the time for which the machine was suspended, to within jitter.
func (c *Clock) Elapsed() Elapsed { return c.ElapsedAt(c.Now()) }

// ElapsedAt is Elapsed at a time just read by Now: to read a clock is a large part of what a denial
// from memory costs.
//
// The wall clock goes on through a suspension and the monotonic one does not. So a wall clock that
// is set forward counts as a suspension too: what is believed for a time then ends early. As the
// monotonic clock goes on until processes are frozen, and begins again before they are thawed, the
// wall clock need not be read more often than every glance.
func (c *Clock) ElapsedAt(now int64) Elapsed {
	if now-c.looked.Load() >= int64(glance) {
		c.compare()
		c.looked.Store(now)
	}
	return Elapsed(now + c.asleep.Load())
}

// Look returns Now, and for how long the machine was suspended so far.
func (c *Clock) Look() (now, asleep int64) {
	now = c.Now()
	return now, int64(c.ElapsedAt(now)) - now
}

// Suspended is for how long the machine was suspended so far.
func (c *Clock) Suspended() int64 {
	_, asleep := c.Look()
	return asleep
}

// compare notices a suspension: the wall clock has gained on the monotonic one.
func (c *Clock) compare() {
	t := time.Now()
	ahead := int64(t.Round(0).Sub(c.Base.Round(0))) - int64(t.Sub(c.Base)) + c.still.Load() - c.unseen.Load()
	for {
		noted := c.ahead.Load()
		gained := ahead - noted
		if gained <= int64(jitter) && gained >= -int64(jitter) {
			return
		}
		if c.ahead.CompareAndSwap(noted, ahead) {
			c.asleep.Add(max(gained, 0))
			return
		}
	}
}

// Suspend is what becomes of the clock of a machine that was suspended for so long: the monotonic
// clock stood still but for a moment. It is for tests.
func (c *Clock) Suspend(d time.Duration) {
	c.still.Add(int64(d - time.Millisecond))
	c.looked.Store(0) // a test's goroutines go on meanwhile, and may have looked at what is the future now
}

// Stop is what becomes of the clock of a machine that its hypervisor stopped for so long: both
// clocks stood still. It is for tests.
func (c *Clock) Stop(d time.Duration) {
	c.unseen.Add(int64(d))
	c.still.Add(int64(d))
}
