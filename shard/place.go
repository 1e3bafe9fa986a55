package shard

import (
	"cmp"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Place returns for each of n shards of the limit the index of the node that is
// to hold it. It is weighted rendezvous hashing with bounded load: a node gets
// its part of n by weight, rounded down or up, so with equal weights and
// n >= len(nodes) every node is used. The result does not depend on the order
// of nodes, and adding or removing one of m equal nodes moves few shards: the
// ideal n/m and little more (the tests state the measured bound). Without nodes the
// result is nil. n is limited to 0..Slots.
func Place(name string, n int, nodes []Node) []int {
	if len(nodes) == 0 {
		return nil
	}
	n = min(max(n, 0), Slots)
	placed := slices.Repeat([]int{-1}, n)
	room := newQuota(n, nodes)
	for _, b := range bids(name, n, nodes) {
		if placed[b.shard] < 0 && room.take(b.node) {
			placed[b.shard] = b.node
		}
	}
	return placed
}

// placeOne is Place for a single shard: the node that it likes best has room for it.
func placeOne(name string, nodes []Node) (best int) {
	if len(nodes) == 1 {
		return 0
	}
	limit, top := xxhash.Sum64String(name), -1.0
	for j, node := range nodes {
		s := score(pair(pair(limit, xxhash.Sum64String(node.Name)), 0), weight(node))
		if s > top || s == top && node.Name < nodes[best].Name {
			best, top = j, s
		}
	}
	return best
}

// bid says how much a shard would like a node.
type bid struct {
	score       float64
	shard, node int
}

// bids returns all pairs of n shards and the nodes, best first. A shard is
// hashed by its distance from the home slot, not by its index, so that those which
// remain when n is doubled want the same nodes as before.
func bids(name string, n int, nodes []Node) []bid {
	limit := xxhash.Sum64String(name)
	all := make([]bid, 0, n*len(nodes))
	for j, node := range nodes {
		host, w := pair(limit, xxhash.Sum64String(node.Name)), weight(node)
		for i := range n {
			all = append(all, bid{score(pair(host, uint64(offset(i, n))), w), i, j})
		}
	}
	slices.SortFunc(all, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.shard, b.shard),
			cmp.Compare(nodes[a.node].Name, nodes[b.node].Name))
	})
	return all
}

// quota counts the room that nodes have left. Every node may take the whole part
// of its share of n; the fractions add up to extra more, at most one a node.
type quota struct {
	whole []int
	odd   []bool
	extra int
}

func newQuota(n int, nodes []Node) *quota {
	q := &quota{whole: make([]int, len(nodes)), odd: make([]bool, len(nodes)), extra: n}
	parts := fractions(nodes)
	for j, part := range parts {
		exact := part * float64(n)
		if near := math.Round(exact); math.Abs(exact-near) < 1e-9 {
			exact = near // equal weights must divide exactly
		}
		q.whole[j] = int(exact)
		q.odd[j] = exact > float64(q.whole[j])
		q.extra -= q.whole[j]
	}
	return q
}

func (q *quota) take(node int) bool {
	switch {
	case q.whole[node] > 0:
		q.whole[node]--
	case q.odd[node] && q.extra > 0:
		q.odd[node] = false
		q.extra--
	default:
		return false
	}
	return true
}

// fractions returns the part of each node in the sum of the weights. The sum is
// formed in ascending order, so that it does not depend on the order of nodes, and
// relative to the greatest weight, so that it does not overflow.
func fractions(nodes []Node) []float64 {
	weights := make([]float64, len(nodes))
	for j, node := range nodes {
		weights[j] = weight(node)
	}
	greatest := slices.Max(weights)
	for j := range weights {
		weights[j] /= greatest
	}
	sum := 0.0
	for _, w := range slices.Sorted(slices.Values(weights)) {
		sum += w
	}
	for j := range weights {
		weights[j] /= sum
	}
	return weights
}

// weight returns the weight of node, or 1 if it has no valid one.
func weight(node Node) float64 {
	if node.Weight > 0 && !math.IsInf(node.Weight, 1) {
		return node.Weight
	}
	return 1
}

// Arrange returns the live shards of a limit of so many permits: n of them (fewer
// if there are fewer permits), evenly spaced, placed on nodes, and with equal
// shares. It is what [New] and [Layout.Change] want. Without nodes or permits
// the result is nil.
func Arrange(name string, permits int64, n int, nodes []Node) []Shard {
	if len(nodes) == 0 || permits <= 0 {
		return nil
	}
	n = Fit(permits, n, Slots)
	slots, hosts, shares := Positions(name, n), Place(name, n, nodes), Split(permits, n)
	shards := make([]Shard, n)
	for i := range shards {
		shards[i] = Shard{Slot: slots[i], Node: nodes[hosts[i]].Name, Incarnation: nodes[hosts[i]].Incarnation, Share: shares[i]}
	}
	return shards
}
