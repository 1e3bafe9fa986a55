package shard

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// KeySlots is in how many slots the shards of keys lie in a new family.
const KeySlots = 256

// maxFill is how long it may take to fill a shard's burst. A part of the burst beyond is
// proportional to the share.
const maxFill = 10 * 31 * 24 * time.Hour

// Arrangement says where the keys of a family have their shards. Every process computes the
// shards of a key from it, and from nothing else.
type Arrangement struct {
	Shards int `json:"shards"` // of each key, as far as there are permits for them
	// Slots is in how many slots, evenly spaced over all, the shards of keys lie: few, so that on a
	// cluster one script call has to do with many keys. It divides the number of all slots. 0, or
	// fewer than Shards: in any.
	Slots int    `json:"slots,omitempty"`
	Nodes []Node `json:"nodes"` // over which the keys are placed; never changed in place
	// Fell tells that shares fell when this came into force: a shard may have in use what it had
	// before, which is more than this says. It is forgotten with the arrangements before.
	Fell bool `json:"fell,omitempty"`
}

// shards returns the live shards of a key.
func (a Arrangement) shards(id string, s Spec) []Shard {
	n := a.Shards
	if s.Burst > 0 {
		n = Fit(s.Burst, n, Slots)
	}
	shards := s.live(a.place(id, n, Split(s.Permits, n)))
	if s.Burst <= 0 || s.Burst < int64(len(shards)) {
		return shards
	}
	bursts := Split(s.Burst, len(shards))
	for i, sh := range shards {
		if float64(bursts[i])*float64(s.Window) > float64(sh.Share)*float64(maxFill) {
			return shards
		}
	}
	for i := range shards {
		shards[i].Burst = bursts[i]
	}
	return shards
}

// place places n shards, and returns those that have a share.
func (a Arrangement) place(id string, n int, shares []int64) []Shard {
	slots, hosts := a.positions(id, n), Place(id, n, a.Nodes)
	shards := make([]Shard, 0, n)
	for i, share := range shares {
		if share > 0 {
			shards = append(shards, Shard{Slot: slots[i], Node: a.Nodes[hosts[i]].Name,
				Life: a.Nodes[hosts[i]].Life, Share: share})
		}
	}
	return shards
}

// positions returns the slots of a key's shards: those of Positions, or the next before them of
// few.
func (a Arrangement) positions(id string, n int) []int {
	positions := Positions(id, n)
	if a.Slots >= max(n, 1) {
		apart := Slots / a.Slots
		for i := range positions {
			positions[i] -= positions[i] % apart
		}
	}
	return positions
}

// same reports whether two arrangements have the same shards for every key.
func (a Arrangement) same(b Arrangement) bool {
	return a.Shards == b.Shards && a.Slots == b.Slots && slices.Equal(a.Nodes, b.Nodes)
}

// normal returns nodes in order of their names and with valid weights, so that equal lists are
// equal.
func normal(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Weight = weight(nodes[i])
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return nodes
}

// fenced reports whether the shards of keys have lives: those of all nodes or of none.
func (a Arrangement) fenced() bool { return len(a.Nodes) > 0 && a.Nodes[0].Life != "" }

func (a Arrangement) validate() error {
	if a.Shards < 1 || a.Shards > Slots {
		return fmt.Errorf("%d shards", a.Shards)
	}
	if a.Slots < 0 || a.Slots > 0 && Slots%a.Slots != 0 {
		return fmt.Errorf("keys in %d slots", a.Slots)
	}
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
		case !lives(n.Life) || (n.Life != "") != a.fenced():
			return fmt.Errorf("node %q has the life %.80q, others have: %v", n.Name, n.Life, a.fenced())
		}
	}
	return nil
}
