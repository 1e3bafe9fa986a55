package limit

import (
	"fmt"
	"math"
	"time"

	"github.com/shardlimit/shardlimit/internal/local"
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

// Limit is how many permits may be admitted per window, see shardlimit.Limit.
type Limit struct {
	Permits   int64
	Per       time.Duration
	Algorithm Algorithm
	Burst     int64
	Shards    int
	Scope     Scope
	Lease     time.Duration
	Revision  int64
	Mode      Mode
}

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
	if l.Algorithm != SlidingLog {
		s += ", " + l.Algorithm.String()
	}
	if l.Burst > 0 {
		s += fmt.Sprintf(", burst of %d", l.Burst)
	}
	if l.Lease > 0 {
		s += fmt.Sprintf(", leases of %s", l.Lease)
	}
	if l.Mode != Enforced {
		s += ", " + l.Mode.String()
	}
	return s
}

// longestWindow is MaxWindow as people say it.
const longestWindow = "31 days"

// Validate returns an error that tells why there can be no such limit, nil if there can.
func (l Limit) Validate() error {
	switch {
	case l.Permits < 1 || l.Permits > MaxPermits:
		return fmt.Errorf("%w: Permits is %d, it must be 1 to %d; Mode Closed lets nothing through, Off everything",
			ErrInvalidLimit, l.Permits, int64(MaxPermits))
	case l.Per < MinWindow || l.Per > MaxWindow || l.Per%time.Microsecond != 0:
		return fmt.Errorf("%w: Per is %s, it must be %s to %s, in whole microseconds", ErrInvalidLimit, l.Per,
			MinWindow, longestWindow)
	case l.Algorithm >= Algorithms || l.Scope > PerParticipant || l.Mode >= modes:
		return fmt.Errorf("%w: Algorithm %d, Scope %d or Mode %d is not known to this version", ErrInvalidLimit,
			l.Algorithm, l.Scope, l.Mode)
	case l.Burst < 0 || l.Burst > MaxPermits:
		return fmt.Errorf("%w: Burst is %d, it must be 0 (the same as Permits) to %d", ErrInvalidLimit, l.Burst,
			int64(MaxPermits))
	case l.Burst > 0 && !l.Algorithm.Bursty():
		return fmt.Errorf("%w: Burst is %d, but %s has none; only TokenBucket and LeakyBucket do", ErrInvalidLimit,
			l.Burst, l.Algorithm)
	case (float64(l.Most())/float64(l.Permits)+1)*float64(l.Per) > 10*float64(MaxWindow):
		// one permit more for a shard whose part was rounded up
		return fmt.Errorf("%w: a Burst of %d takes too long to fill, 9 x %s is always possible", ErrInvalidLimit,
			l.Burst, longestWindow)
	case l.Lease > 0 && (l.Algorithm != SlidingLog || l.Scope == PerParticipant):
		return fmt.Errorf("%w: Lease needs SlidingLog, to count held permits until they are used, and a limit that is "+
			"shared", ErrInvalidLimit)
	case l.Shards < 0 || l.Shards > MaxShards:
		return fmt.Errorf("%w: Shards is %d, it must be 0 (chosen for you) to %d", ErrInvalidLimit, l.Shards, MaxShards)
	case l.Lease < 0 || l.Lease > l.Per || l.Per+l.Lease > MaxWindow || l.Lease%time.Microsecond != 0:
		return fmt.Errorf("%w: Lease is %s, it must be 0 to Per in whole microseconds, and both together at most %s",
			ErrInvalidLimit, l.Lease, longestWindow)
	case l.Revision < 0 || l.Revision > MaxRevision:
		return fmt.Errorf("%w: Revision is %d, it must be 0 to %d", ErrInvalidLimit, l.Revision, int64(MaxRevision))
	}
	return nil
}

// DividedBy returns the part of the limit that each of so many participants has, at least one
// permit. Its burst takes no longer to fill than that of the limit: of permits that do not divide
// evenly a part has less, and would fill more slowly than a log allows.
func (l Limit) DividedBy(participants int64) Limit {
	whole := l.Permits
	l.Permits = max(1, whole/participants)
	if l.Burst > 0 {
		l.Burst = max(1, min(l.Burst/participants, shard.Scale(l.Burst, l.Permits, whole)))
	}
	return l
}

// Owed returns within what time a bucket must have gained what it is charged.
func (l *Limit) Owed() time.Duration {
	return min(max(time.Hour, 2*l.fill()), 10*script.MaxWindow)
}

// fill returns how long a burst takes to come.
func (l Limit) fill() time.Duration {
	return time.Duration(float64(l.Most()) / float64(l.Permits) * float64(l.Per))
}

// Ahead returns how far ahead permits of the limit may be dated: a window, or as long as a burst
// takes to come if that is longer.
func (l Limit) Ahead() time.Duration { return max(l.Per, l.fill()) }

// Local returns the limit as an engine of this process enforces it.
func (l Limit) Local() local.Limit {
	return local.Limit{Permits: l.Permits, Window: l.Per, Algorithm: l.Algorithm, Burst: l.Burst}
}

// Most returns how many permits can be granted at once at the most.
func (l Limit) Most() int64 {
	if l.Algorithm.Bursty() && l.Burst > 0 {
		return l.Burst
	}
	return l.Permits
}

// Soonest returns the least time in which so many permits can be granted, or for LeakyBucket act,
// whatever was used before.
func (l Limit) Soonest(permits int64) time.Duration {
	windows := (permits - 1) / l.Permits
	switch l.Algorithm {
	case FixedWindow: // of which one may end, and one begin, at once
		windows = max(windows-1, 0)
	case TokenBucket, LeakyBucket:
		at := float64(permits-l.Most()) / float64(l.Permits) * float64(l.Per)
		return time.Duration(min(max(at, 0), math.MaxInt64/2))
	}
	if windows > int64(math.MaxInt64/2/l.Per) {
		return math.MaxInt64 / 2
	}
	return time.Duration(windows) * l.Per
}

// Memory returns for how long something that was granted can still count.
func (l Limit) Memory() time.Duration {
	if l.Algorithm.Bursty() {
		return 2*l.Per + l.fill()
	}
	return l.Per + l.Lease
}

// ForKeys returns a limit as the keys of a family have it. The error tells why there can be none.
func (l Limit) ForKeys() (Limit, error) {
	if err := l.Validate(); err != nil {
		return l, err
	}
	switch {
	case l.Shards > 1:
		return l, fmt.Errorf("%w: Shards is %d; a key of a family has one", ErrInvalidLimit, l.Shards)
	case l.Lease != 0:
		return l, fmt.Errorf("%w: Lease is %s; a key of a family has none", ErrInvalidLimit, l.Lease)
	}
	l.Shards = 1
	return l, nil
}

// with returns the limit of a key with these terms, in a family that has l.
func (l Limit) with(t shard.Terms) Limit {
	if t != (shard.Terms{}) {
		l.Permits, l.Per, l.Burst, l.Revision = t.Permits, t.Window, t.Burst, t.Revision
		l.Mode, _ = named[Mode](modeNames, t.Mode, "mode") // it was one
	}
	return l
}
