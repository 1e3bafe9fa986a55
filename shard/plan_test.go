package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
)

// seen is the observation of a shard at epoch 2.
func seen(start, share int64) shard.Observation {
	return shard.Observation{Seen: true, Epoch: 2, Start: start, Share: share}
}

func TestPlan(t *testing.T) {
	old := must(t)(shard.New(nil, 1, spec(50), on("a", 30, "b", 10, "c", 10)))
	l := must(t)(old.Change(2, spec(60), on("a", 20, "b", 20, "c", 20), 0))
	blind := must(t)(l.Change(3, spec(60), on("a", 20, "b", 20, "c", 20), 0))
	blind.Epoch = 2
	closed, later := seen(0, 0), seen(30, 30)
	closed.Closed, later.Epoch = true, 3
	type obs = []shard.Observation
	for name, c := range map[string]struct {
		l    shard.Layout
		obs  obs
		want string
	}{
		"nothing seen: what is free": {l, nil, "[0 20 0] false false"},
		"lowered half way":           {l, obs{seen(30, 24), seen(10, 10), seen(10, 10)}, "[0 20 16] false false"},
		"drained":                    {l, obs{seen(30, 20), seen(10, 15), {}}, "[0 20 20] false false"},
		"one missing":                {l, obs{seen(30, 20), seen(10, 20), {}}, "[0 0 20] false false"},
		"done":                       {l, obs{seen(30, 20), seen(10, 20), seen(10, 20)}, "[0 0 0] true false"},
		"held cannot be negative":    {l, obs{seen(30, -1), seen(10, 10), seen(10, 10)}, "[0 20 0] false false"},
		"superseded":                 {l, obs{later, seen(10, 20), seen(10, 20)}, "[0 0 0] false true"},
		"a raising one was idle":     {l, obs{seen(30, 30), seen(0, 0), {}}, "[0 20 0] false false"},
		"the lowering one lost all":  {l, obs{seen(0, 0), seen(10, 10), seen(10, 10)}, "[20 20 20] false false"},
		"and is in quarantine":       {l, obs{closed, seen(10, 10), seen(10, 10)}, "[0 20 0] false false"},
		"values that cannot be":      {l, obs{seen(-1, 0), seen(0, -1), seen(10, 1<<62)}, "[0 20 0] false false"},
		"earlier epochs do not count": {l, obs{{Seen: true, Epoch: 1, Share: 20}, seen(10, 10), seen(10, 10)},
			"[0 20 0] false false"},
		"unknown starts, two seen":       {blind, obs{seen(20, 20), seen(10, 10), {}}, "[0 0 0] false false"},
		"unknown starts, all seen":       {blind, obs{seen(26, 26), seen(10, 10), seen(10, 10)}, "[0 20 14] false false"},
		"unknown starts, quarantine":     {blind, obs{seen(20, 20), seen(10, 10), closed}, "[0 0 0] false false"},
		"unknown starts, one lacks more": {blind, obs{seen(30, 30), seen(10, 10), seen(0, 0)}, "[0 20 10] false false"},
		"an idle one has its own": {must(t)(old.Change(2, spec(30), on("a", 10, "b", 10, "c", 10), 0)),
			obs{{}, seen(0, 0), seen(10, 10)}, "[0 10 0] false false"},
		"all hold their shares, one is closed": {l,
			obs{{Seen: true, Epoch: 2, Start: 30, Share: 20, Closed: true}, seen(10, 20), seen(10, 20)},
			"[0 0 0] false false"},
		"an unseen one knows nothing of epochs": {l, obs{{Epoch: 99}, seen(10, 10), seen(10, 10)},
			"[0 20 0] false false"},
	} {
		got := c.l.Plan(c.obs)
		if s := fmt.Sprint(got.Raise, got.Done, got.Superseded); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

// starts returns how many permits the shards had before, as far as that is known.
func starts(l shard.Layout) (permits int64) {
	for _, s := range l.Shards {
		permits += max(s.Start, 0)
	}
	return permits
}

// story is what happens to one shard during a transition: the states it can be observed in, in
// order.
type story []shard.Observation

func drawStory(t *rapid.T, s shard.Shard, epoch int64) story {
	amount := func(low, high int64, what string) int64 { return rapid.Int64Range(low, high).Draw(t, what) }
	at := func(start, share int64) shard.Observation {
		return shard.Observation{Seen: true, Epoch: epoch, Start: start, Share: share}
	}
	start, told := s.Start, story{{}}
	if start == shard.Unknown {
		start, told = amount(0, 2*s.Share+10, "start"), nil
	} else if rapid.Bool().Draw(t, "idle") {
		start = 0
	}
	if start <= s.Share {
		told = append(told, at(start, start))
	} else {
		for held := start; ; held = amount(s.Share, held-1, "held") {
			told = append(told, at(start, held))
			if held == s.Share || len(told) > 4 {
				break
			}
		}
	}
	if rapid.Bool().Draw(t, "lost") {
		told = append(told, shard.Observation{Seen: true, Epoch: epoch, Closed: true}, at(0, 0))
	}
	return told
}

// drawShards draws shards at 1 to 6 of 8 places, in any order, with shares up to one of tops, and
// their sum.
func drawShards(t *rapid.T, tops ...int64) (shards []shard.Shard, permits int64) {
	top := rapid.SampledFrom(tops).Draw(t, "top")
	n := rapid.IntRange(1, 6).Draw(t, "n")
	for _, k := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "places")[:n] {
		s := shard.Shard{Slot: k, Node: "a", Share: rapid.Int64Range(1, top).Draw(t, "share")}
		shards, permits = append(shards, s), permits+s.Share
	}
	return shards, permits
}

// drawLayout returns an unsettled layout with shares of any size.
func drawLayout(t *rapid.T) (l shard.Layout) {
	for epoch := int64(1); epoch == 1 || l.Settled || (epoch < 4 && rapid.Bool().Draw(t, "again")); epoch++ {
		shards, permits := drawShards(t, 3, 100, 9999991, shard.MaxPermits/6)
		l = bursting(t, l, permits, 0, shards)
	}
	return l
}

// TestPlanDrivers: whatever drivers saw of each shard, and when, the greatest floors
// that any of them proposes fit into the limit together with what the shards hold. A broken
// rule shows once in some thousand draws.
func TestPlanDrivers(t *testing.T) {
	for range extent.Some(160) {
		rapid.Check(t, checkDrivers)
	}
}

// checkDrivers draws a layout, what its shards tell one after the other, and what drivers see of
// that.
func checkDrivers(t *rapid.T) {
	l := drawLayout(t)
	highest, holds := make([]int64, len(l.Shards)), make([]int64, len(l.Shards))
	stories := make([]story, len(l.Shards))
	for j, s := range l.Shards {
		stories[j] = drawStory(t, s, l.Epoch)
		if last := stories[j][len(stories[j])-1]; last.Seen {
			holds[j] = last.Share
		} else {
			holds[j] = s.Start
		}
	}
	raised := false
	for range rapid.IntRange(1, 4).Draw(t, "drivers") {
		obs := make([]shard.Observation, len(l.Shards))
		for j, told := range stories {
			obs[j] = rapid.SampledFrom(told).Draw(t, "seen")
		}
		for j, floor := range l.Plan(obs).Raise {
			if floor < 0 || floor > l.Shards[j].Share {
				t.Fatalf("floor %d of target %d", floor, l.Shards[j].Share)
			}
			raised = raised || floor > 0
			highest[j] = max(highest[j], floor)
		}
	}
	var sum int64
	for j := range l.Shards {
		sum += max(highest[j], holds[j])
	}
	if most := max(l.Permits, starts(l)); raised && sum > most {
		t.Fatalf("%v: floors %v on %v sum to %d of %d", show(l), highest, holds, sum, most)
	}
}

// TestPlanUses: less than one permit per shard waits without need, and once nothing is left
// to drain everybody may have the exact target.
func TestPlanUses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		obs := make([]shard.Observation, len(l.Shards))
		var sum, bounds int64
		drained := true
		for j, s := range l.Shards {
			told := drawStory(t, s, l.Epoch)
			told = slices.DeleteFunc(told, func(o shard.Observation) bool { return !o.Seen || o.Closed })
			obs[j] = rapid.SampledFrom(told).Draw(t, "seen")
			bounds += obs[j].Share
			drained = drained && obs[j].Share <= s.Share
		}
		step := l.Plan(obs)
		for j, s := range l.Shards {
			holds := max(obs[j].Share, step.Raise[j])
			sum += holds
			if drained && holds != s.Share {
				t.Fatalf("%v: drained, but %d has %d", show(l), j, holds)
			}
		}
		if sum > max(bounds, l.Permits, starts(l)) || sum <= l.Permits-int64(len(l.Shards)) {
			t.Fatalf("%v: %v raised by %v sums to %d of %d", show(l), obs, step.Raise, sum, l.Permits)
		}
	})
}

// FuzzPlan: no observation, however wrong, panics, or gets anybody more than the target.
func FuzzPlan(f *testing.F) {
	f.Add(int64(2), int64(30), int64(30), false, int64(2), int64(0), int64(1<<62), true)
	f.Fuzz(func(t *testing.T, e1, s1, h1 int64, c1 bool, e2, s2, h2 int64, c2 bool) {
		old := must(t)(shard.New(nil, 1, spec(50), on("a", 30, "b", 20)))
		big := []shard.Shard{{Slot: 1, Node: "b", Share: 4e11}, {Slot: 1, Node: "c", Share: 6e11}}
		l := must(t)(old.Change(2, spec(1e12), big, 0))
		step := l.Plan([]shard.Observation{{Seen: true, Epoch: e1, Start: s1, Share: h1, Closed: c1},
			{Seen: true, Epoch: e2, Start: s2, Share: h2, Closed: c2}})
		for j, floor := range step.Raise {
			if floor < 0 || floor > l.Shards[j].Share {
				t.Errorf("floor %d of target %d", floor, l.Shards[j].Share)
			}
		}
	})
}
