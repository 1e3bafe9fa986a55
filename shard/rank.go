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
	who, scores, order := xxhash.Sum64String(participant), make([]float64, len(shards)), []int{}
	for i, s := range shards {
		if s.Share > 0 {
			identity := pair(xxhash.Sum64String(s.Node), uint64(s.Slot))
			scores[i], order = score(pair(who, identity), float64(s.Share)), append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}
