package shardlimit

import (
	"github.com/shardlimit/shardlimit/internal/limit"
)

// Algorithm says how permits are counted against a Limit. What each guarantees holds over all
// shards and processes together. When SetLimit changes the algorithm, what was used under the old
// one is given up to the new one only as it comes back, so a window that overlaps the change obeys
// the greater of the two bounds. docs/reference/changing-a-limit.md tells of the exceptions, which
// need two changes at once.
type Algorithm uint8

// The algorithms.
const (
	// SlidingLog admits at most Permits in every interval of length Per, wherever
	// it begins: the log of what was admitted slides with the clock. It is exact
	// while it is short; for large limits, grants closer together than about
	// Per/128 share one log entry that is dated at the newest of them, so the only
	// error is that a permit may come back up to Per/128 late, never early. No burst slips
	// through. A shard takes up to 20 KB of Redis, whatever the limit.
	SlidingLog Algorithm = Algorithm(limit.SlidingLog)
	// SlidingCounter admits at most Permits in every interval of length Per, as SlidingLog does,
	// but counts in 20 cells instead of a log: a shard takes a few hundred bytes, and a permit may
	// come back up to Per/16 late, never early, so that a limit that is always wanted admits up to
	// that much less. No burst slips through.
	SlidingCounter Algorithm = Algorithm(limit.SlidingCounter)
	// FixedWindow admits at most Permits in each window of the node's clock. Windows begin at
	// multiples of Per since 1970 UTC, so those of a minute, an hour and a day begin where people
	// expect it. An interval of length
	// Per that lies across an edge can see up to 2 x Permits. Nodes whose clocks differ have their
	// edges at different times: a share that moves between two of them can be granted once more.
	FixedWindow Algorithm = Algorithm(limit.FixedWindow)
	// TokenBucket gains Permits per Per, continuously, and holds at most Burst (by default
	// Permits). In any time t it admits at most Burst + Permits x t/Per: after a rest up to Burst
	// at once. It begins full. Time is told in microseconds: of a bucket that gains several permits
	// in one, what it gains in one may be added to that.
	TokenBucket Algorithm = Algorithm(limit.TokenBucket)
	// LeakyBucket spreads what it admits evenly: Decision.Delay says when the caller may act, and
	// turns of one shard are exactly Per/share apart. Up to Burst (by default Permits) can be
	// waiting for their turns; more are denied. In any time t at most Permits x t/Per may act, and
	// one more for each shard: for strictly even spacing choose one shard. Wait sleeps the delay
	// itself.
	LeakyBucket Algorithm = Algorithm(limit.LeakyBucket)
)

// String returns the name under which the algorithm is stored and reported.
func (a Algorithm) String() string { return limit.Algorithm(a).String() }
