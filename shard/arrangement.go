package shard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// KeySlots is how many slots hold the shards of keys, evenly spaced: few, so that one script call
// on a cluster serves many keys. At most so many masters can have a part.
const KeySlots = 16

// Arrangement says where the keys of a family have their shards. Every process computes the
// shards of a key from it, and from nothing else.
type Arrangement struct {
	Nodes []Node `json:"nodes"` // over which the keys are placed; never changed in place
}

// shard returns the shard of a key, without a share.
func (a Arrangement) shard(id string) Shard {
	host := a.Nodes[placeOne(id, a.Nodes)]
	return Shard{Slot: keySlot(home(id)), Node: host.Name, Incarnation: host.Incarnation}
}

// keySlot returns the slot of keys whose home that is.
func keySlot(home int) int { return home - home%(Slots/KeySlots) }

// on reports whether keys are placed on a node in this incarnation of it.
func (a Arrangement) on(n Node) bool {
	return slices.ContainsFunc(a.Nodes, func(is Node) bool {
		return is.Name == n.Name && is.Incarnation == n.Incarnation
	})
}

// normal returns nodes in order of their names, so that equal lists are equal.
func normal(nodes []Node) []Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// fenced reports whether the shards of keys have incarnations: those of all nodes or of none.
func (a Arrangement) fenced() bool { return len(a.Nodes) > 0 && a.Nodes[0].Incarnation != "" }

func (a Arrangement) validate() error {
	if len(a.Nodes) == 0 {
		return errors.New("no nodes")
	}
	for i, n := range a.Nodes {
		switch {
		case n.Name == "" || !utf8.ValidString(n.Name):
			return fmt.Errorf("node %q is empty or not UTF-8", n.Name)
		case i > 0 && n.Name <= a.Nodes[i-1].Name:
			return fmt.Errorf("node %q is not in order", n.Name)
		case !(n.Weight > 0) || math.IsInf(n.Weight, 1):
			return fmt.Errorf("node %q has a weight of %g", n.Name, n.Weight)
		case !incarnations(n.Incarnation) || (n.Incarnation != "") != a.fenced():
			return fmt.Errorf("node %q has the incarnation %.80q, others have one: %v", n.Name, n.Incarnation, a.fenced())
		}
	}
	return nil
}
