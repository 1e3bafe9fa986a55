package script

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDistribute(t *testing.T) {
	for _, c := range []struct {
		free    int64
		groups  []Group
		want    []int64
		granted int64
	}{
		{10, nil, nil, 0},
		{10, []Group{{Size: 1, Count: 4}}, []int64{4}, 4},
		{10, []Group{{Size: 1, Count: 40}}, []int64{10}, 10},
		{10, []Group{{Size: 7, Count: 1}, {Size: 7, Count: 1}, {Size: 3, Count: 1}}, []int64{1, 0, 1}, 10},
		{10, []Group{{Size: 4, Count: 3}, {Size: 1, Count: 1}}, []int64{2, 1}, 9},
		{0, []Group{{Size: 1, Count: 1}}, []int64{0}, 0},
		{-5, []Group{{Size: 1, Count: 1}}, []int64{0}, 0},
		{5, []Group{{Size: 0, Count: 1}, {Size: -1, Count: 3}, {Size: 1, Count: -2}}, []int64{0, 0, 0}, 0},
		{MaxPermits, []Group{{Size: MaxPermits, Count: MaxPermits}}, []int64{1}, MaxPermits},
	} {
		got, granted := Distribute(nil, c.free, c.groups)
		if !slices.Equal(got, c.want) || granted != c.granted {
			t.Errorf("%d free for %v: %v, %d", c.free, c.groups, got, granted)
		}
	}
}

// TestDistributeOneByOne: groups are only a short way to write asks one by one.
func TestDistributeOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.Int64Range(0, 50).Draw(t, "free")
		var groups, single []Group
		for range rapid.IntRange(0, 5).Draw(t, "groups") {
			g := Group{Size: rapid.Int64Range(1, 9).Draw(t, "size"), Count: rapid.Int64Range(1, 9).Draw(t, "count")}
			groups = append(groups, g)
			for range g.Count {
				single = append(single, Group{Size: g.Size, Count: 1})
			}
		}
		each, granted := Distribute(nil, free, groups)
		ones, same := Distribute(nil, free, single)
		if granted != same || granted > free {
			t.Fatalf("%d, one by one %d", granted, same)
		}
		for i, g := range groups {
			sum := int64(0)
			for _, n := range ones[:g.Count] {
				sum += n
			}
			if ones = ones[g.Count:]; sum != each[i] {
				t.Fatalf("group %d: %d asks, one by one %d", i, each[i], sum)
			}
		}
	})
}
