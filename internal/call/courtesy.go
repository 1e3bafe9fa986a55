package call

import (
	"math"
	"sync"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// Courtesy is what a process counts of a limit whose permits come back early: what its lines got.
// A process that took back at once what it returned would keep it from all others. Of nil nothing
// is counted.
type Courtesy struct {
	target      *Target
	mu          sync.Mutex
	half        int64 // of the window, counted from 0
	had, before int64 // permits got in that half, and earlier, that were not given back
	full        bool  // there was nothing left when it last got or wanted some
}

// CourtesyOf returns what the process counts of the limit; nil of a key, which it would have to
// remember, unless it is slots.
func CourtesyOf(c *Target) *Courtesy {
	if c.Family != nil && c.Of.slots.Load() == nil {
		return nil
	}
	return &c.rare().Courtesy
}

// in brings the counts to the half window under way. c.mu is held.
func (c *Courtesy) in(r *limit.Routes) {
	half := 2 * c.target.Process.Now() / int64(r.Limit.Per)
	switch half - c.half {
	case 0:
		return
	case 1, 2:
		c.before = c.had
	default:
		c.before = 0
	}
	c.half, c.had = half, 0
}

// Got counts the permits that a decision granted to a line of the limit, and whether any are left.
// A decision of the outage policy counts for nothing: its permits are no shard's.
func (c *Courtesy) Got(r *limit.Routes, d *Decision) {
	if c == nil || r == nil || d.Target == nil || d.Degraded {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in(r)
	c.had, c.full = c.had+d.Granted, d.Remaining < 1
}

// gave counts what the process gave back.
func (c *Courtesy) gave(n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before -= n; c.before < 0 {
		c.before, c.had = 0, max(c.had+c.before, 0)
	}
}

// Part returns how many permits the lines of the limit may get before they leave to other processes
// what comes back early: its part of the limit, without what they have.
func (c *Courtesy) Part(r *limit.Routes) int64 {
	if c == nil || r == nil {
		return math.MaxInt64
	}
	processes := c.target.Record().Participants.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.full || processes < 2 {
		return math.MaxInt64
	}
	c.in(r)
	return r.Limit.Permits/processes - c.had - c.before
}
