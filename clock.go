package shardlimit

import (
	"sync/atomic"
	"time"
)

// clock tells the time since a Client was made, in nanoseconds, never zero. It is safe for
// concurrent use.
type clock struct {
	base   time.Time
	ahead  atomic.Int64 // of the wall clock over the monotonic one, when that was last noticed to change
	asleep atomic.Int64 // how long the machine was suspended
	looked atomic.Int64 // when the two were last compared
	still  atomic.Int64 // by how much the monotonic clock is held back; only tests do that
}

const (
	// jitter is by how much the two clocks of a machine may drift apart unnoticed.
	jitter = 100 * time.Millisecond
	// glance is how often they are compared at most. It is less than it takes to suspend a machine.
	glance = 100 * time.Microsecond
)

// now does not jump. It stands still while the machine is suspended.
func (c *clock) now() int64 { return int64(time.Since(c.base)) + 1 - c.still.Load() }

// time returns an instant of now as others tell it.
func (c *clock) time(at int64) time.Time {
	return c.base.Add(time.Duration(at - 1 + c.still.Load()))
}

// elapsed is now with the time for which the machine was suspended, to within jitter.
func (c *clock) elapsed() int64 {
	now, asleep := c.look()
	return now + asleep
}

// suspended is for how long the machine was suspended so far.
func (c *clock) suspended() int64 {
	_, asleep := c.look()
	return asleep
}

// look returns now, and for how long the machine was suspended so far.
//
// The wall clock goes on through a suspension and the monotonic one does not. So a wall clock that is
// set forward counts as a suspension too: what is believed for a time then ends early. As the
// monotonic clock goes on until processes are frozen, and begins again before they are thawed, the
// wall clock need not be read more often than every glance.
func (c *clock) look() (now, asleep int64) {
	if now = c.now(); now-c.looked.Load() >= int64(glance) {
		c.compare()
		c.looked.Store(now)
	}
	return now, c.asleep.Load()
}

// compare notices a suspension: the wall clock has gained on the monotonic one.
func (c *clock) compare() {
	t := time.Now()
	ahead := int64(t.Round(0).Sub(c.base.Round(0))) - int64(t.Sub(c.base)) + c.still.Load()
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
