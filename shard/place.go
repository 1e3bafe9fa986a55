package shard

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// Place returns for each of n shards of the limit the index of the node that is
// to hold it. It is weighted rendezvous hashing with bounded load: a node gets
// its part of n by weight, rounded down or up, so with equal weights and
// n >= len(nodes) every node is used. The result does not depend on the order
// of nodes, and adding or removing one of m equal nodes moves few shards: the
// ideal n/m and little more (the tests state the measured bound). n is 0 to Slots; there is a node.
func Place(name string, n int, nodes []Node) []int {
	placed, room := make([]int, n), newQuota(n, nodes)
	for i := range placed {
		placed[i] = favourite(name, offset(i, n), nodes, room)
		room.take(placed[i])
	}
	return placed
}

// placeOne is Place for a single shard: the node that it likes best has room for it.
func placeOne(name string, nodes []Node) (best int) {
	if len(nodes) == 1 {
		return 0
	}
	return favourite(name, 0, nodes, nil)
}

// favourite returns which node a shard of a limit likes best, of those that have room; nil: all. A
// shard is hashed by its distance from the home slot, not by its index, so that those which
// remain when n is doubled want the same nodes as before.
func favourite(name string, distance int, nodes []Node, room *quota) (best int) {
	limit, top := xxhash.Sum64String(name), -1.0
	for j, node := range nodes {
		if room != nil && !room.has(j) {
			continue
		}
		s := score(pair(pair(limit, xxhash.Sum64String(node.Name)), uint64(distance)), node.Weight)
		if s > top || s == top && node.Name < nodes[best].Name {
			best, top = j, s
		}
	}
	return best
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
	sum := 0.0
	for _, node := range nodes {
		sum += node.Weight
	}
	for j, node := range nodes {
		exact := node.Weight / sum * float64(n)
		if near := math.Round(exact); math.Abs(exact-near) < 1e-9 {
			exact = near // equal weights must divide exactly
		}
		q.whole[j] = int(exact)
		q.odd[j] = exact > float64(q.whole[j])
		q.extra -= q.whole[j]
	}
	return q
}

// has reports whether a node has room.
func (q *quota) has(node int) bool { return q.whole[node] > 0 || q.odd[node] && q.extra > 0 }

// take takes room of a node that has some.
func (q *quota) take(node int) {
	if q.whole[node]--; q.whole[node] < 0 {
		q.whole[node], q.odd[node] = 0, false
		q.extra--
	}
}

// Arrange returns the live shards of a limit of so many permits, 1 or more: n of them (fewer if
// there are fewer permits, at most MaxLive), evenly spaced, placed on nodes, and with equal shares.
// It is what [New] and [Layout.Change] want. Without nodes the result is nil.
func Arrange(name string, permits int64, n int, nodes []Node) []Shard {
	if len(nodes) == 0 {
		return nil
	}
	n = Fit(permits, n)
	slots, hosts, shares := Positions(name, n), Place(name, n, nodes), Split(permits, n)
	shards := make([]Shard, n)
	for i := range shards {
		at := nodes[hosts[i]]
		shards[i] = Shard{Slot: slots[i], Node: at.Name, Incarnation: at.Incarnation, Share: shares[i]}
	}
	return shards
}
