package register

import (
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// giftsOf returns what comes into the token buckets of a layout with the shares that are raised;
// nil under other algorithms. That a shard was not used for long is told by its absence only in the
// first step: later it may have given up what it had, and have expired.
func giftsOf(layout shard.Layout, seen []shard.Observation, raise []int64, first bool) []shard.Gift {
	if layout.Algorithm != TokenBucket {
		return nil
	}
	for i := range seen {
		seen[i].Fresh = seen[i].Fresh && first
	}
	return layout.Gifts(seen, raise)
}

// unusedOf returns what of its share a leaving shard has given up that was not used in the window
// before. The share of a log, a counter and a leaky bucket falls no faster than what they let
// through leaves the window. A fixed window forgets at its edge.
func unusedOf(s shard.Shard, reply script.TakeReply) int64 {
	if s.Share > 0 || s.Start <= 0 {
		return 0
	}
	switch s.Algorithm {
	case SlidingLog, SlidingCounter, LeakyBucket:
		return max(s.Start-reply.Share, 0)
	}
	return 0
}
