package shard_test

import "github.com/shardlimit/shardlimit/shard"

// The model of a shard that the transition simulation uses: the proposal rule,
// the lowering rule and an exact log, in ticks instead of microseconds.

// proposal is what every call carries.
type proposal struct {
	epoch, target, floor int64
	window               int
}

// reply is what the shard says about itself.
type reply struct {
	epoch, start, share int64
	closed              bool
}

func (r reply) observation() shard.Observation {
	return shard.Observation{Seen: true, Epoch: r.epoch, Start: r.start, Share: r.share, Closed: r.closed}
}

type grant struct {
	at int
	n  int64
}

// cell is one shard's state.
type cell struct {
	present              bool
	lost                 bool // the state vanished inside its life: creating it again starts a quarantine
	lostAt               int
	epoch, target, start int64
	share                int64
	window               int
	closedUntil, expires int
	log                  []grant
	rules                *rules
}

// used returns the permits in the log at now, and forgets those that have left the window.
func (c *cell) used(now int) int64 {
	var sum int64
	live := c.log[:0]
	for _, g := range c.log {
		if now < g.at+c.window {
			live = append(live, g)
			sum += g.n
		}
	}
	c.log = live
	return sum
}

// exists reports whether there is a state. One whose quarantine is over is none.
func (c *cell) exists(now int) bool {
	return c.present && now < c.expires && (c.closedUntil == 0 || now < c.closedUntil || c.rules.keptQuarantine)
}

// propose applies p. A quarantine and an idle state last at least memory ticks.
func (c *cell) propose(now, memory int, p proposal) reply {
	if c.present && !c.exists(now) {
		*c = cell{rules: c.rules}
	}
	switch {
	case !c.present:
		lasts, closed := max(p.window, memory), 0
		if c.rules.shortQuarantine {
			lasts = p.window
		}
		if c.lost && now < c.lostAt+lasts {
			closed = c.lostAt + lasts
		}
		*c = cell{present: true, epoch: p.epoch, target: p.target, window: p.window, closedUntil: closed,
			rules: c.rules}
		c.raise(now, p.floor)
		c.touch(now, memory)
	case c.epoch < p.epoch:
		c.used(now)
		c.epoch, c.target, c.start, c.window = p.epoch, p.target, c.share, p.window
		c.lower(now)
		c.raise(now, p.floor)
		c.touch(now, memory)
	case c.epoch == p.epoch:
		c.raise(now, p.floor)
	}
	c.lower(now)
	return reply{c.epoch, c.start, c.share, now < c.closedUntil}
}

// raise puts floor in force. In quarantine a shard holds nothing, whoever
// proposes what: the proposal may be older than the loss.
func (c *cell) raise(now int, floor int64) {
	if now >= c.closedUntil || c.rules.looseQuarantine {
		c.share = max(c.share, floor)
	}
}

// lower lets the share follow the log down to the target.
func (c *cell) lower(now int) {
	if c.share > c.target {
		c.share = max(c.target, min(c.share, c.used(now)))
	}
}

// take grants up to n permits and returns how many.
func (c *cell) take(now, memory int, n int64) int64 {
	if now < c.closedUntil {
		return 0
	}
	n = min(n, c.share-c.used(now))
	if n <= 0 {
		return 0
	}
	c.log = append(c.log, grant{now, n})
	c.touch(now, memory)
	return n
}

func (c *cell) touch(now, memory int) {
	c.expires = max(now, c.closedUntil) + 2*c.window + memory
}

// lose forgets everything.
func (c *cell) lose(now int) { *c = cell{lost: c.present || c.lost, lostAt: now, rules: c.rules} }
