package script

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whenever a shard is told of another edge, what was granted since its window began stays in use
// until the next edge that was proposed. So no window in force holds more than the share.
func TestWindowsEndAtTheProposedEdge(t *testing.T) {
	const window, target = 1_000_000, 20
	rapid.Check(t, func(t *rapid.T) {
		shard, epoch, edge := NewTwin(AlgorithmFixedWindow), int64(1), int64(0)
		now, used, ends := int64(epoch0), int64(0), int64(0)
		next := func() int64 { return now + window - ((now-edge)%window+window)%window }
		propose := func() *Proposal {
			p, err := Terms{Epoch: epoch, Target: target, Floor: target, Window: time.Second,
				Algorithm: AlgorithmFixedWindow, Edge: duration(edge)}.Proposal()
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		ends = next()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, window/10), rapid.Int64Range(0, 3*window),
				rapid.Just(ends-1-now), rapid.Just(ends-now)).Filter(func(us int64) bool { return us >= 0 }).Draw(t,
				"us")
			if now >= ends {
				used, ends = 0, next()
			}
			if rapid.IntRange(0, 9).Draw(t, "clear") == 0 {
				used = 0
				shard.Clear(now) // the window goes on
			}
			if rapid.IntRange(0, 3).Draw(t, "another edge") == 0 {
				epoch++
				edge = rapid.Int64Range(0, window-1).Draw(t, "edge")
				ends = next()
			}
			n := rapid.Int64Range(1, target).Draw(t, "permits")
			reply := shard.Take(now, &TakeRequest{Proposal: propose(), Groups: []Group{{Size: 1, Count: n}}})
			if want := min(n, target-used); reply.Granted != want {
				t.Fatalf("at %d, %d of the window used, which ends at %d: %d granted, want %d", now, used, ends,
					reply.Granted, want)
			}
			used += reply.Granted
			if left := duration(ends - now); used > 0 && reply.Reset != left {
				t.Fatalf("at %d: reset in %v, want %v", now, reply.Reset, left)
			}
		}
	})
}
