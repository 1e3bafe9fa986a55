package majority

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// What a membership can hold.
const (
	MaxNodes = 256
	MaxName  = 512 // bytes of a node's name
)

// Why a membership cannot be, or cannot be changed so.
var (
	ErrMembership = errors.New("invalid membership")
	// ErrUnknownNode: the membership has no node of that name.
	ErrUnknownNode = errors.New("unknown node")
	// ErrStanding: the node does not stand so that this can be done with it.
	ErrStanding = errors.New("not for a node that stands so")
	// ErrTooFewPlaces: the nodes that would be left hold no majority of the places, or none is in.
	ErrTooFewPlaces = errors.New("too few places would be left")
)

// Node is a node of a membership.
type Node struct {
	Name string `json:"name"`
	Out  bool   `json:"out,omitempty"` // nobody asks it anything
	// Since is the generation in which it went out or, if it is in, in which this life of it began.
	Since int64 `json:"since"`
	// For so long at least it had been out when this generation was made, by the clocks of the
	// places.
	OutFor time.Duration `json:"out_ns,omitempty"`
}

// Membership is which nodes of a key prefix are in. It is the value of one register. A method that
// changes it returns the next generation; it never changes m.
type Membership struct {
	Generation int64    `json:"generation"`
	Places     []string `json:"places"` // the nodes that hold the register, in its order
	Nodes      []Node   `json:"nodes"`  // by name
}

// NewMembership returns a first generation, 1 unless there were others that are forgotten.
func NewMembership(generation int64, places []string, nodes ...string) (Membership, error) {
	m := Membership{Generation: generation, Places: slices.Clone(places)}
	for _, name := range slices.Sorted(slices.Values(nodes)) {
		m.Nodes = append(m.Nodes, Node{Name: name, Since: generation})
	}
	return m, m.Validate()
}

// Outlast returns the generation after m for a register that forgot m.
func (m Membership) Outlast() Membership { return m.next(0) }

// Node returns a node, and whether there is one of that name.
func (m Membership) Node(name string) (Node, bool) {
	for _, n := range m.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// PutOut puts a node out. held is for how long m has been held, as Found or Reading tells.
func (m Membership) PutOut(name string, held time.Duration) (Membership, error) {
	next, n, err := m.change(name, held)
	if err != nil {
		return Membership{}, err
	}
	if n.Out {
		return Membership{}, fmt.Errorf("%w: %q", ErrStanding, name)
	}
	n.Out, n.Since, n.OutFor = true, next.Generation, 0
	return next.checked()
}

// Add has a node in that is new, or was out.
func (m Membership) Add(name string, held time.Duration) (Membership, error) {
	if _, known := m.Node(name); !known {
		next := m.next(held)
		next.Nodes = append(next.Nodes, Node{Name: name, Since: next.Generation})
		slices.SortFunc(next.Nodes, byName)
		return next.checked()
	}
	next, n, err := m.change(name, held)
	if err != nil {
		return Membership{}, err
	}
	if !n.Out {
		return Membership{}, fmt.Errorf("%w: %q", ErrStanding, name)
	}
	n.Out, n.Since, n.OutFor = false, next.Generation, 0
	return next.checked()
}

// change returns the next generation, and a node in it.
func (m Membership) change(name string, held time.Duration) (Membership, *Node, error) {
	next := m.next(held)
	i := slices.IndexFunc(next.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Membership{}, nil, fmt.Errorf("%w %q", ErrUnknownNode, name)
	}
	return next, &next.Nodes[i], nil
}

// next is the generation after m, which was held for so long.
func (m Membership) next(held time.Duration) Membership {
	next := Membership{Generation: m.Generation + 1, Places: slices.Clone(m.Places), Nodes: slices.Clone(m.Nodes)}
	for i := range next.Nodes {
		if n := &next.Nodes[i]; n.Out {
			n.OutFor = min(n.OutFor+max(held, 0), maxOutFor)
		}
	}
	return next
}

// maxOutFor is longer than anything that is waited for: to have been out longer makes no
// difference.
const maxOutFor = 10 * 366 * 24 * time.Hour

// OutFor is for how long at least a node has been out, given that m has been held for so long: 0
// for one that is not.
func (m Membership) OutFor(name string, held time.Duration) time.Duration {
	n, _ := m.Node(name)
	if !n.Out {
		return 0
	}
	return min(n.OutFor+max(held, 0), maxOutFor)
}

func (m Membership) checked() (Membership, error) {
	if err := m.Validate(); err != nil {
		return Membership{}, err
	}
	return m, nil
}

// Validate returns an error if there can be no such membership. One whose places are mostly out is
// ErrTooFewPlaces: nobody could ever change it.
func (m Membership) Validate() error {
	if m.Generation < 1 || m.Generation > MaxNumber || len(m.Nodes) > MaxNodes || len(m.Places) > MaxPlaces {
		return fmt.Errorf("%w: generation %d, %d nodes, %d places", ErrMembership, m.Generation, len(m.Nodes),
			len(m.Places))
	}
	in := 0
	for i, n := range m.Nodes {
		if i > 0 && byName(m.Nodes[i-1], n) >= 0 || !n.valid(m.Generation) {
			return fmt.Errorf("%w: node %q", ErrMembership, n.Name)
		}
		if !n.Out {
			in++
		}
	}
	left := 0
	for i, name := range m.Places {
		n, known := m.Node(name)
		if !known || slices.Contains(m.Places[:i], name) {
			return fmt.Errorf("%w: place %q", ErrMembership, name)
		}
		if !n.Out {
			left++
		}
	}
	if in == 0 || left < Majority(len(m.Places)) {
		return ErrTooFewPlaces
	}
	return nil
}

func (n Node) valid(generation int64) bool {
	return len(n.Name) >= 1 && len(n.Name) <= MaxName && utf8.ValidString(n.Name) && n.Since >= 1 && n.Since <= generation &&
		n.OutFor >= 0 && n.OutFor <= maxOutFor && (n.Out || n.OutFor == 0)
}

func byName(a, b Node) int { return cmp.Compare(a.Name, b.Name) }
