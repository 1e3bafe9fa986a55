package shardlimit

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Bounds of a Limit. They keep every number that a script handles far inside
// the 53 bits that Redis' Lua can represent exactly.
const (
	MaxPermits = script.MaxPermits // a million million permits per window
	MinWindow  = script.MinWindow  // a millisecond
	MaxWindow  = script.MaxWindow  // 31 days
	MaxShards  = shard.MaxLive     // 256 shards of one limit

	MaxRevision = script.MaxEpoch // microseconds since 1970 are far less
)

// Scope says whom a Limit holds for.
type Scope uint8

const (
	// Global is one limit for all participants together.
	Global Scope = iota
	// PerParticipant gives every participant the whole limit for itself, for
	// instance to keep each process of a fleet from overloading its own machine.
	// Decisions are made in this process by the algorithm that the shards run
	// for other limits, without asking Redis and whether or not it is there;
	// they are exact, and never Degraded. Only the declaration is shared, so a
	// change reaches a process within 15 seconds of use, and then keeps what
	// was used. Peek and Reset concern this process. What a process used is
	// forgotten when it ends; of the keys of a Family it remembers 65,536.
	PerParticipant
)

// String returns the name under which the scope is reported.
func (s Scope) String() string {
	switch s {
	case Global:
		return "global"
	case PerParticipant:
		return "per_participant"
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}

// stored is the name of the scope in a record: nothing for Global, as before there were others.
func (s Scope) stored() string {
	if s == Global {
		return ""
	}
	return s.String()
}

func scopeNamed(name string) (Scope, error) {
	for _, s := range []Scope{Global, PerParticipant} {
		if name == s.stored() {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: scope %q", register.ErrUnreadable, name)
}

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
	// SetLimit and Rebalance count the processes that used it lately. A limit never gets more
	// shards than it has permits, so a small limit may get fewer than asked for.
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

// PerSecond is a SlidingLog limit of n permits in any second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Per: time.Second} }

// PerMinute is a SlidingLog limit of n permits in any minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Per: time.Minute} }

// PerHour is a SlidingLog limit of n permits in any hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Per: time.Hour} }

// PerDay is a SlidingLog limit of n permits in any 24 hours.
func PerDay(n int64) Limit { return Limit{Permits: n, Per: 24 * time.Hour} }

// String describes the limit for people: "5000 permits per 1s over 4 shards".
func (l Limit) String() string {
	s := fmt.Sprintf("%d permits per %s", l.Permits, l.Per)
	switch {
	case l.Scope == PerParticipant:
		s += " for each participant"
	case l.Shards == 1:
		s += " on 1 shard"
	case l.Shards > 1:
		s += fmt.Sprintf(" over %d shards", l.Shards)
	}
	if l.Mode != Enforced {
		s += ", " + l.Mode.String()
	}
	return s
}

// longestWindow is MaxWindow as people say it.
const longestWindow = "31 days"

func (l Limit) validate() error {
	switch {
	case l.Permits < 1 || l.Permits > MaxPermits:
		return fmt.Errorf("%w: Permits is %d, it must be 1 to %d", ErrInvalidLimit, l.Permits, int64(MaxPermits))
	case l.Per < MinWindow || l.Per > MaxWindow:
		return fmt.Errorf("%w: Per is %s, it must be %s to %s", ErrInvalidLimit, l.Per, MinWindow, longestWindow)
	case l.Per%time.Microsecond != 0:
		return fmt.Errorf("%w: Per is %s, it must be whole microseconds", ErrInvalidLimit, l.Per)
	case l.Algorithm >= algorithms:
		return fmt.Errorf("%w: Algorithm %d is not known to this version", ErrInvalidLimit, l.Algorithm)
	case l.Burst < 0 || l.Burst > MaxPermits:
		return fmt.Errorf("%w: Burst is %d, it must be 0 (the same as Permits) to %d", ErrInvalidLimit, l.Burst,
			int64(MaxPermits))
	case l.Burst > 0 && !l.Algorithm.bursty():
		return fmt.Errorf("%w: Burst is %d, but %s has none; only TokenBucket and LeakyBucket do", ErrInvalidLimit,
			l.Burst, l.Algorithm)
	case (float64(l.most())/float64(l.Permits)+1)*float64(l.Per) > 10*float64(MaxWindow):
		// one permit more for a shard whose part was rounded up
		return fmt.Errorf("%w: a Burst of %d takes too long to fill, 9 x %s is always possible", ErrInvalidLimit,
			l.Burst, longestWindow)
	case l.Lease > 0 && l.Algorithm != SlidingLog:
		return fmt.Errorf("%w: Lease needs SlidingLog: %s could not count held permits until they are used",
			ErrInvalidLimit, l.Algorithm)
	case l.Shards < 0 || l.Shards > MaxShards:
		return fmt.Errorf("%w: Shards is %d, it must be 0 (chosen for you) to %d", ErrInvalidLimit, l.Shards, MaxShards)
	case l.Scope > PerParticipant:
		return fmt.Errorf("%w: Scope %d is not known to this version", ErrInvalidLimit, l.Scope)
	case l.Scope == PerParticipant && l.Lease != 0:
		return fmt.Errorf("%w: Lease is for a limit that is shared; one of Scope PerParticipant is decided in memory "+
			"anyway", ErrInvalidLimit)
	case l.Lease < 0 || l.Lease > l.Per || l.Per+l.Lease > MaxWindow:
		return fmt.Errorf("%w: Lease is %s, it must be 0 to Per, and both together at most %s", ErrInvalidLimit,
			l.Lease, longestWindow)
	case l.Lease%time.Microsecond != 0:
		return fmt.Errorf("%w: Lease is %s, it must be whole microseconds", ErrInvalidLimit, l.Lease)
	case l.Mode >= modes:
		return fmt.Errorf("%w: Mode %d is not known to this version", ErrInvalidLimit, l.Mode)
	case l.Revision < 0 || l.Revision > MaxRevision:
		return fmt.Errorf("%w: Revision is %d, it must be 0 to %d", ErrInvalidLimit, l.Revision, int64(MaxRevision))
	}
	return nil
}
