package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
)

func ExampleArrange() {
	nodes := []shard.Node{{Name: "redis-a:6379", Weight: 1}, {Name: "redis-b:6379", Weight: 1},
		{Name: "redis-c:6379", Weight: 1}}
	for _, s := range shard.Arrange("orders", 100, 3, nodes) {
		fmt.Printf("{%s} on %s: %d permits\n", shard.Tag(s.Slot), s.Node, s.Share)
	}
	// Output:
	// {1os} on redis-a:6379: 34 permits
	// {29F} on redis-c:6379: 33 permits
	// {0nx} on redis-b:6379: 33 permits
}

func someNodes(n int) []shard.Node {
	nodes := make([]shard.Node, n)
	for i := range nodes {
		nodes[i] = shard.Node{Name: fmt.Sprintf("10.0.0.%d:6379", i), Weight: 1}
	}
	return nodes
}

// loads counts the shards of each node, and fails if one of them has none.
func loads(t *testing.T, placed []int, nodes int) []int {
	t.Helper()
	count := make([]int, nodes)
	for i, j := range placed {
		if j < 0 || j >= nodes {
			t.Fatalf("shard %d is on node %d of %d", i, j, nodes)
		}
		count[j]++
	}
	return count
}

// checkParts fails unless each node gets its part of n shards by weight, rounded down or up: so all
// nodes of one weight are used when n is no less than they are. Weights are so many times the unit.
func checkParts(t *testing.T, name string, n int, unit float64, weights []int) {
	t.Helper()
	nodes, sum := someNodes(len(weights)), 0
	for j, w := range weights {
		nodes[j].Weight, sum = unit*float64(w), sum+w
	}
	for j, c := range loads(t, shard.Place(name, n, nodes), len(nodes)) {
		if part := n * weights[j]; c != part/sum && c != (part+sum-1)/sum {
			t.Fatalf("%s: node %d has %d of %d shards, its part is %d/%d", name, j, c, n, part, sum)
		}
	}
}

// TestPlaceParts: also where a weight is not exact in binary, and where 1/49*49 is less than 1.
func TestPlaceParts(t *testing.T) {
	for m := 1; m <= 60; m++ {
		for _, n := range []int{0, 1, m - 1, m, m + 1, 2*m - 1, 2 * m, 3*m + 2} {
			for k := range extent.Some(10) {
				checkParts(t, fmt.Sprint("limit", k), n, 0.1, slices.Repeat([]int{1}, m))
			}
		}
	}
	for k := range 20 {
		checkParts(t, fmt.Sprint("limit", k), 49, 0.5, slices.Concat(slices.Repeat([]int{2}, 25),
			slices.Repeat([]int{1}, 48)))
	}
}

// TestArrange: what it returns is a valid layout of odd limits over any number of shards.
func TestArrange(t *testing.T) {
	for _, permits := range []int64{1, 2, 7, 11, 9999991, shard.MaxPermits} {
		for _, n := range []int{-1, 0, 1, 2, 3, 7, 16, 33} {
			shards := shard.Arrange("orders", permits, n, someNodes(5))
			if l, err := shard.New(nil, 1, spec(permits), shards); err != nil ||
				len(l.Live()) != shard.Fit(permits, n) {
				t.Errorf("%d permits, %d shards: %v, %v", permits, n, shards, err)
			}
		}
	}
	if shards := shard.Arrange("orders", 3, 3, nil); shards != nil {
		t.Errorf("shards on no nodes: %v", shards)
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("limit", uint16(7), uint8(3), uint64(1))
	f.Fuzz(func(t *testing.T, name string, n uint16, m uint8, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		weights := make([]int, m%20+1)
		for j := range weights {
			weights[j] = 1 + rng.IntN(1<<rng.IntN(20))
		}
		n %= 200
		checkParts(t, name, int(n), 0.001, weights)
		nodes := someNodes(len(weights))
		for j := range nodes {
			nodes[j].Weight = float64(weights[j])
		}
		placed := shard.Place(name, int(n), nodes)
		shuffled := slices.Clone(nodes)
		rng.Shuffle(len(nodes), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
		for i, j := range shard.Place(name, int(n), shuffled) {
			if shuffled[j].Name != nodes[placed[i]].Name {
				t.Fatalf("shard %d is on %s or %s, by the order of the nodes", i, shuffled[j].Name,
					nodes[placed[i]].Name)
			}
		}
	})
}

// TestPlaceMoves states how much a change of nodes moves: on average over limits at most 3 times
// the ideal n/(m+1) for m+1 nodes against m, and never more than 4 times that, plus 4.
func TestPlaceMoves(t *testing.T) {
	limits := extent.Some(100)
	for _, m := range []int{1, 2, 3, 5, 8, 16, 32} {
		for _, per := range []int{1, 2, 4, 8} {
			n := m * per
			nodes := someNodes(m + 1)
			ideal, total := float64(n)/float64(m+1), 0
			for k := range limits {
				name := fmt.Sprint("limit", k)
				fewer, more, moved := shard.Place(name, n, nodes[:m]), shard.Place(name, n, nodes), 0
				for i := range fewer {
					if fewer[i] != more[i] {
						moved++
					}
				}
				total += moved
				if float64(moved) > 4*ideal+4 {
					t.Errorf("%d shards, %d nodes: %d moved, ideal %.1f", n, m, moved, ideal)
				}
			}
			if mean := float64(total) / float64(limits); mean > 3*ideal {
				t.Errorf("%d shards, %d nodes: %.2f moved on average, ideal %.2f", n, m, mean, ideal)
			}
		}
	}
}

// proportional fails the test unless the counts are as the weights, but for what chance does.
func proportional(t *testing.T, counts []int, weights ...int64) {
	t.Helper()
	all, sum := 0, 0.0
	for j, c := range counts {
		all, sum = all+c, sum+float64(weights[j])
	}
	for j, c := range counts {
		part := float64(weights[j]) / sum
		want, deviation := part*float64(all), math.Sqrt(part*(1-part)*float64(all))
		if math.Abs(float64(c)-want) > 4.5*deviation {
			t.Errorf("weights %v: %d has %d of %d, want %.0f", weights, j, c, all, want)
		}
	}
}

// TestPlaceBalance: over many limits every node gets its part even of single shards.
func TestPlaceBalance(t *testing.T) {
	nodes, count := someNodes(4), make([]int, 4)
	for j := range nodes {
		nodes[j].Weight = float64(j + 1)
	}
	for k := range 30000 {
		count[shard.Place(fmt.Sprint("limit", k), 1, nodes)[0]]++
	}
	proportional(t, count, 1, 2, 3, 4)
}

// TestPlaceDoubling: twice the shards leave most of the old ones where they are.
func TestPlaceDoubling(t *testing.T) {
	moved, nodes := 0, someNodes(4)
	for k := range 200 {
		name := fmt.Sprint("limit", k)
		old, doubled := shard.Place(name, 8, nodes), shard.Place(name, 16, nodes)
		for i := range old {
			if old[i] != doubled[2*i] {
				moved++
			}
		}
	}
	if moved > 8*200/3 {
		t.Errorf("%d of %d shards moved", moved, 8*200)
	}
}

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
