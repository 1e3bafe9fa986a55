package shard

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Rank returns the indices of the live shards (Share > 0) in the order in which
// participant prefers them: the first few take its load, the others are its
// spill order. It is weighted rendezvous hashing, so
//
//   - every participant has an order of its own, and always the same one,
//   - first choices are distributed in proportion to Share,
//   - when a shard goes, only the participants that preferred it change their
//     choice, and the rest of everybody's order stays as it was.
//
// The order depends on which shards there are, not on how they are ordered,
// except that a shard listed twice keeps its order.
func Rank(participant string, shards []Shard) []int {
	type candidate struct {
		index int
		score float64
	}
	who := xxhash.Sum64String(participant)
	candidates := make([]candidate, 0, len(shards))
	for i, s := range shards {
		if s.Share > 0 {
			identity := pair(xxhash.Sum64String(s.Node), uint64(s.Slot))
			candidates = append(candidates, candidate{i, score(pair(who, identity), float64(s.Share))})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	order := make([]int, len(candidates))
	for i, c := range candidates {
		order[i] = c.index
	}
	return order
}
