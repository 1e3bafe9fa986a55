package shardlimit_test

import (
	"math"
	"time"

	"github.com/shardlimit/shardlimit"
)

// bound is what an interval may hold by the doc comment of the limit's algorithm. LeakyBucket is
// judged by what it grants, also when the turns of that come later.
func bound(l shardlimit.Limit, width time.Duration) int64 {
	windows := float64(width) / float64(l.Per)
	switch l.Algorithm {
	case shardlimit.FixedWindow:
		return l.Permits * int64(math.Ceil(windows)+1)
	case shardlimit.TokenBucket:
		return mostAtOnce(l) + int64(math.Ceil(windows*float64(l.Permits)))
	case shardlimit.LeakyBucket: // the next turn of each shard is free before the one before it has ended
		return mostAtOnce(l) + int64(math.Ceil(windows*float64(l.Permits))) + int64(max(l.Shards, 1))
	default:
		return l.Permits * int64(math.Ceil(windows))
	}
}

// mostAtOnce is what a limit that rested grants.
func mostAtOnce(l shardlimit.Limit) int64 {
	if l.Burst > 0 && (l.Algorithm == shardlimit.TokenBucket || l.Algorithm == shardlimit.LeakyBucket) {
		return l.Burst
	}
	return l.Permits
}

// fills is how long it takes until an empty bucket is full.
func fills(l shardlimit.Limit) time.Duration {
	return time.Duration(float64(mostAtOnce(l))/float64(l.Permits)*float64(l.Per)) + time.Millisecond
}

// longer are the widths, in windows, by which a limit is judged beside its window: an algorithm
// that admits more than its permits in one of that length shows only over several what it admits.
func longer(a shardlimit.Algorithm) []time.Duration {
	switch a {
	case shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket:
		return []time.Duration{5}
	}
	return nil
}
