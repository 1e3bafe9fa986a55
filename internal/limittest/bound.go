package limittest

import (
	"math"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Bound is what an interval may hold by the doc comment of the limit's algorithm. LeakyBucket is
// judged by what it grants, also when the turns of that come later.
func Bound(l shardlimit.Limit, width time.Duration) int64 {
	windows := float64(width) / float64(l.Per)
	switch l.Algorithm {
	case shardlimit.FixedWindow:
		return l.Permits * int64(math.Ceil(windows)+1)
	case shardlimit.TokenBucket:
		return MostAtOnce(l) + int64(math.Ceil(windows*float64(l.Permits)))
	case shardlimit.LeakyBucket: // the next turn of each shard is free before the one before it has ended
		return MostAtOnce(l) + int64(math.Ceil(windows*float64(l.Permits))) + int64(max(l.Shards, 1))
	default:
		return l.Permits * int64(math.Ceil(windows))
	}
}

// MostAtOnce is what a limit that rested grants.
func MostAtOnce(l shardlimit.Limit) int64 {
	if l.Burst > 0 && (l.Algorithm == shardlimit.TokenBucket || l.Algorithm == shardlimit.LeakyBucket) {
		return l.Burst
	}
	return l.Permits
}

// Longer are the widths, in windows, by which a limit is judged beside its window: an algorithm
// that admits more than its permits in one of that length shows only over several what it admits.
func Longer(a shardlimit.Algorithm) []time.Duration {
	switch a {
	case shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket:
		return []time.Duration{5}
	}
	return nil
}

// Same reports whether two limits admit the same.
func Same(a, b shardlimit.Limit) bool {
	return a.Permits == b.Permits && a.Per == b.Per && a.Algorithm == b.Algorithm
}

// Ceiling is the most that any interval of one window's length may see.
func Ceiling(l shardlimit.Limit) shardlimit.Limit {
	switch l.Algorithm {
	case shardlimit.FixedWindow:
		l.Permits *= 2
	case shardlimit.TokenBucket, shardlimit.LeakyBucket: // leaky: what is granted, not what acts
		l.Permits += max(l.Burst, l.Permits)
	}
	return l
}

// KeepsTo fails the test if any window of the history holds more than the limit.
func KeepsTo(tb testing.TB, limit shardlimit.Limit, ops []history.Op) history.Window {
	tb.Helper()
	worst, ok := history.Check(limit.Per, limit.Permits, ops)
	if !ok {
		tb.Errorf("%s: %s", limit, worst)
	}
	return worst
}

// Since is what began at or after an instant.
func Since(from int64, ops []history.Op) (later []history.Op) {
	for _, op := range ops {
		if op.Start >= from {
			later = append(later, op)
		}
	}
	return later
}
