package shard_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

// TestGiftsAreNoMoreThanWasGivenUp: whatever is observed, gifts sum to no more than buckets said
// they gave up, of what was theirs, and what an unused limit held, and none is more than its room.
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
				gave += min(o.Gave, next.Burst*s.Start/p)
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

// TestABucketThatAnOldSnapshotFilledGivesNothing: the layout before left a shard nothing, and an
// old snapshot has brought a full bucket back. What falls out of it comes to nobody,
// itself included.
func TestABucketThatAnOldSnapshotFilledGivesNothing(t *testing.T) {
	here, there := shard.Shard{Slot: 1, Node: "n"}, shard.Shard{Slot: 2, Node: "n"}
	spec := shard.Spec{Permits: 10, Window: time.Second, Algorithm: "token_bucket", Burst: 20}
	there.Share = 10
	old, err := shard.New(1, spec, []shard.Shard{there})
	if err != nil {
		t.Fatal(err)
	}
	here.Share, there.Share = 5, 5
	next, err := old.Change(2, spec, []shard.Shard{here, there})
	if err != nil {
		t.Fatal(err)
	}
	for _, gave := range []int64{0, 3} { // by the shard that had the share
		obs := []shard.Observation{{Seen: true, Epoch: 2, Gave: 20},
			{Seen: true, Epoch: 2, Start: 10, Share: 5, Gave: gave}}
		step := next.Plan(obs)
		gifts := next.Gifts(obs, step.Raise)
		if step.Raise[0] != 5 || gifts[0] != (shard.Gift{Permits: gave, Room: 10}) || gifts[1].Permits != 0 {
			t.Errorf("raised to %v with %+v, although %d were given up", step.Raise, gifts, gave)
		}
	}
}
