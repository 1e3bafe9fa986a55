package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// Bounds of a Limit. They keep every number that a script handles far inside
// the 53 bits that Redis' Lua can represent exactly.
const (
	MaxPermits = limit.MaxPermits // a million million permits per window
	MinWindow  = limit.MinWindow  // a millisecond
	MaxWindow  = limit.MaxWindow  // 31 days
	MaxShards  = limit.MaxShards  // 256 shards of one limit

	MaxRevision = limit.MaxRevision // microseconds since 1970 are far less
)

// Limit is how many permits may be admitted per window, and how that is counted.
type Limit struct {
	// Permits that may be admitted in any window, 1 to MaxPermits.
	Permits int64
	// Per is the length of the window, MinWindow to MaxWindow. It is kept in
	// whole microseconds.
	Per time.Duration
	// Algorithm that counts; the zero value is SlidingLog.
	Algorithm Algorithm
	// Burst is the capacity of a TokenBucket or the length of the queue of a LeakyBucket, 1 to
	// MaxPermits and at most what comes in 9 x MaxWindow; 0 means Permits. Other algorithms have
	// none.
	Burst int64
	// Shards over which the limit is split, at most MaxShards. 0 chooses: one for each node (master
	// of a cluster), but no more than leaves every participant 25 permits per window on each,
	// because smaller parts cannot be kept fair. A new limit is taken to have 16 participants;
	// SetLimit with 0, and Rebalance, count the processes that used it lately. A limit never gets
	// more shards than it has permits, so a small limit may get fewer than asked for.
	Shards int
	// Scope says for whom; the zero value is all participants together.
	Scope Scope
	// Lease is for how long this process may hold permits that it was granted in
	// advance, 0 to Per. With 0 every decision asks Redis. With more, most
	// decisions are made in memory, and the limit still holds in every window: a
	// permit comes back a whole window after the end of the lease. The price is
	// that a limit under pressure admits about Permits per (Per + Lease).
	Lease time.Duration
	// Revision orders limits that are declared in code. A declaration with a
	// higher revision than the stored one replaces it; equal or lower joins
	// what is stored. It is 0 to MaxRevision. With Family.LimiterWith the last call
	// counts, of limits of an equal revision.
	Revision int64
	// Mode says what becomes of calls: whether the limit is Enforced, which is the zero value, only
	// watched (Shadow), Off, or Closed. A limit that comes with calls for a key has a Mode of its
	// own. A declaration in code with a higher Revision replaces the Mode with the rest.
	Mode Mode
}

// in returns the Limit as the engine has it.
func (l Limit) in() limit.Limit {
	return limit.Limit{Permits: l.Permits, Per: l.Per, Algorithm: limit.Algorithm(l.Algorithm), Burst: l.Burst,
		Shards: l.Shards, Scope: limit.Scope(l.Scope), Lease: l.Lease, Revision: l.Revision, Mode: limit.Mode(l.Mode)}
}

// limitOf returns a Limit of the engine for users.
func limitOf(in limit.Limit) Limit {
	return Limit{Permits: in.Permits, Per: in.Per, Algorithm: Algorithm(in.Algorithm), Burst: in.Burst,
		Shards: in.Shards, Scope: Scope(in.Scope), Lease: in.Lease, Revision: in.Revision, Mode: Mode(in.Mode)}
}

// PerSecond returns a SlidingLog limit of n permits in any second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Per: time.Second} }

// PerMinute returns a SlidingLog limit of n permits in any minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Per: time.Minute} }

// PerHour returns a SlidingLog limit of n permits in any hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Per: time.Hour} }

// PerDay returns a SlidingLog limit of n permits in any 24 hours.
func PerDay(n int64) Limit { return Limit{Permits: n, Per: 24 * time.Hour} }

// String describes the limit for people: "5000 permits per 1s over 4 shards".
func (l Limit) String() string { return l.in().String() }

// Scope says whom a Limit holds for.
type Scope uint8

const (
	// Global is one limit for all participants together.
	Global Scope = Scope(limit.Global)
	// PerParticipant gives every participant the whole limit for itself, for
	// instance to keep each process of a fleet from overloading its own machine.
	// Decisions are made in this process by the same algorithm, without asking
	// Redis and whether or not it is there. They keep to the limit, and are never
	// Degraded. Of more than 128 grants in a window some come back late, by a
	// 128th of it at most. Reserve gives only what is free. Only the declaration
	// is shared, so a change reaches a process within 15 seconds of use, and then
	// keeps what was used. Peek and Reset concern this process. What a process used is
	// forgotten when it ends; of the keys of a Family it remembers 65,536.
	PerParticipant Scope = Scope(limit.PerParticipant)
)

// String returns the name under which the scope is reported.
func (s Scope) String() string { return limit.Scope(s).String() }

// Mode says what becomes of calls on a limit. SetLimit changes it for every process while the limit
// is in use. A process hears of it with its next reply of a shard, at the latest after 15 seconds
// of use, for a Family after 2. Until then it goes by the mode before.
type Mode uint8

// The modes.
const (
	// Enforced grants what the limit has, and denies the rest.
	Enforced Mode = Mode(limit.Enforced)
	// Shadow counts as Enforced does, but refuses and delays nobody. A call that Enforced would
	// have denied or delayed is granted all that it asked for, and its Decision is Shadowed. So it
	// is where Enforced would have returned ErrExceedsLimit, or ErrUnavailable; the Decision is
	// then Degraded, too. Wait and Reserve do not wait.
	Shadow Mode = Mode(limit.Shadow)
	// Off grants every call all that it asks for, and counts nothing. No shard is asked, so nodes
	// may be away. After Off what was granted meanwhile does not count: a window that overlaps it
	// may hold the limit beside that.
	Off Mode = Mode(limit.Off)
	// Closed denies every call, and no shard is asked. Permits that were reserved stay valid. When
	// it will be opened is unknown, so RetryAfter is the 15 seconds after which every process has
	// heard of it. Wait waits until it is opened; Reserve returns ErrLimitClosed. A limit that came
	// Closed by Family.LimiterWith stays so for that Limiter.
	Closed Mode = Mode(limit.Closed)
)

// String returns the name under which the mode is stored and reported.
func (m Mode) String() string { return limit.Mode(m).String() }

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
