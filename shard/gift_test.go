package shard_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

// TestGiftsAreNoMoreThanWasGivenUp: whatever is observed, gifts sum to no more than buckets said
// they gave up and what an unused limit held, and none is more than its room.
func TestGiftsAreNoMoreThanWasGivenUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, p := drawShares(t)
		to, q := drawShares(t)
		old := bursting(t, shard.Layout{}, p, drawBurst(t, len(from), p), from)
		next := bursting(t, old, q, drawBurst(t, len(to), q), to)
		obs := make([]shard.Observation, len(next.Shards))
		gave, fresh := int64(0), int64(0)
		for j, s := range next.Shards {
			if rapid.IntRange(0, 5).Draw(t, "unseen") == 0 {
				continue
			}
			o := shard.Observation{Seen: true, Epoch: next.Epoch, Start: s.Start, Share: min(s.Start, s.Share)}
			if rapid.Bool().Draw(t, "fresh") {
				o.Start, o.Share, o.Fresh = 0, 0, true
				fresh += next.Burst * s.Start / p
			} else {
				o.Gave = rapid.Int64Range(0, 200).Draw(t, "gave")
				gave += o.Gave
			}
			obs[j] = o
		}
		step := next.Plan(obs)
		given := int64(0)
		for j, g := range next.Gifts(obs, step.Raise) {
			if g.Permits < 0 || g.Permits > g.Room || g.Room > 0 && step.Raise[j] == 0 {
				t.Fatalf("%+v for a raise to %d", g, step.Raise[j])
			}
			given += g.Permits
		}
		if given > gave+fresh {
			t.Fatalf("%d are given, %d were given up and %d not used: %+v", given, gave, fresh, obs)
		}
	})
}
