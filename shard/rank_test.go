package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

func ExampleRank() {
	shards := []shard.Shard{
		{Slot: 100, Node: "a", Share: 40},
		{Slot: 5561, Node: "b", Share: 40},
		{Slot: 11022, Node: "c", Share: 20},
	}
	fmt.Println(shard.Rank("worker-1", shards))
	fmt.Println(shard.Rank("worker-2", shards))
	// Output:
	// [0 1 2]
	// [1 2 0]
}

func someShards(shares ...int64) []shard.Shard {
	shards := make([]shard.Shard, len(shares))
	for i, s := range shares {
		shards[i] = shard.Shard{Slot: i * 100, Node: fmt.Sprint("node-", i%5), Share: s}
	}
	return shards
}

// TestRankBalance: first choices are distributed in proportion to the shares.
func TestRankBalance(t *testing.T) {
	for _, shares := range [][]int64{{1, 1}, {10, 10, 10}, {1, 2, 3, 4}, {1e12, 1e12, 5e11}, {5, 5, 5, 5, 5, 5, 5, 5},
		{1, 99}} {
		shards, first := someShards(shares...), make([]int, len(shares))
		for p := range 40000 {
			first[shard.Rank(fmt.Sprint("host-", p), shards)[0]]++
		}
		proportional(t, first, shares...)
	}
}

// TestRankOrder: the preferred shards do not depend on how they are listed. Without one of them,
// everybody's order of the others is what it was.
func TestRankOrder(t *testing.T) {
	shards := someShards(5, 7, 9, 11, 2, 8)
	reversed := slices.Clone(shards)
	slices.Reverse(reversed)
	orders := map[string]bool{}
	for p := range 500 {
		who := fmt.Sprint("host-", p)
		order := shard.Rank(who, shards)
		for i, at := range shard.Rank(who, reversed) {
			if reversed[at] != shards[order[i]] {
				t.Fatalf("%s: %v, but %d is reversed %d", who, order, i, at)
			}
		}
		for gone := range shards {
			fewer := slices.Clone(shards)
			fewer[gone].Share = 0
			want := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return i == gone })
			if got := shard.Rank(who, fewer); !slices.Equal(got, want) {
				t.Fatalf("%s without %d: %v, want %v", who, gone, got, want)
			}
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) < 150 {
		t.Errorf("500 participants have only %d orders", len(orders))
	}
}
