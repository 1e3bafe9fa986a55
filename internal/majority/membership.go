package majority

import (
	"cmp"
	"encoding/json"
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
	// ErrStanding: there is no such node, or it does not stand so that this can be done with it.
	ErrStanding = errors.New("not for a node that stands so")
	// ErrTooFewPlaces: the nodes that would be left hold no majority of the places, or none is in.
	ErrTooFewPlaces = errors.New("too few places would be left")
)

// Node is a node of a membership.
type Node struct {
	Name string `json:"name"`
	Out  bool   `json:"out,omitempty"` // nobody asks it anything
	// Missed tells that a process could not reach it while it was in, and none that can has said so
	// since.
	Missed bool `json:"missed,omitempty"`
	// Since is the generation in which it went out or, if it is in, in which this life of it began.
	Since int64 `json:"since"`
	// For so long at least it had been out or missed when this generation was made, by the places'
	// clocks.
	For time.Duration `json:"for_ns,omitempty"`
}

// Membership is which nodes of a key prefix are in. It is the value of one register. A method that
// changes it returns the next generation, which Encode validates; it never changes m.
type Membership struct {
	Generation int64  `json:"generation"`
	Nodes      []Node `json:"nodes"` // by name
}

// NewMembership returns a first generation, 1 unless there were others that are forgotten.
func NewMembership(generation int64, nodes ...string) Membership {
	m := Membership{Generation: generation}
	for _, name := range slices.Sorted(slices.Values(nodes)) {
		m.Nodes = append(m.Nodes, Node{Name: name, Since: generation})
	}
	return m
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

// PutOut puts a node out. held is for how long m has been held, as Found or Reading tells. It is
// ErrTooFewPlaces if too few of the places would be left: nobody could ever change it.
func (m Membership) PutOut(name string, held time.Duration, places []string) (Membership, error) {
	next, n, err := m.change(name, held, func(n *Node) bool { return !n.Out })
	if err != nil {
		return Membership{}, err
	}
	*n = Node{Name: name, Out: true, Since: next.Generation}
	left := 0
	for _, place := range places {
		if n, _ := next.Node(place); !n.Out {
			left++
		}
	}
	if left < Majority(len(places)) {
		return Membership{}, ErrTooFewPlaces
	}
	return next, nil
}

// Add has a node in that is new, or was out.
func (m Membership) Add(name string, held time.Duration) (Membership, error) {
	if _, known := m.Node(name); !known {
		m.Nodes = append(slices.Clone(m.Nodes), Node{Name: name, Out: true})
		slices.SortFunc(m.Nodes, byName)
	}
	next, n, err := m.change(name, held, func(n *Node) bool { return n.Out })
	if err == nil {
		*n = Node{Name: name, Since: next.Generation}
	}
	return next, err
}

// Miss notes that a node that is in cannot be reached, or that it can after all.
func (m Membership) Miss(name string, held time.Duration, missed bool) (Membership, error) {
	next, n, err := m.change(name, held, func(n *Node) bool { return !n.Out && n.Missed != missed })
	if err == nil {
		n.Missed, n.For = missed, 0
	}
	return next, err
}

// change returns the next generation, and a node in it that may be changed.
func (m Membership) change(name string, held time.Duration, may func(*Node) bool) (Membership, *Node, error) {
	next := m.next(held)
	i := slices.IndexFunc(next.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 || !may(&next.Nodes[i]) {
		return Membership{}, nil, fmt.Errorf("%w: %q", ErrStanding, name)
	}
	return next, &next.Nodes[i], nil
}

// next is the generation after m, which was held for so long.
func (m Membership) next(held time.Duration) Membership {
	next := Membership{Generation: m.Generation + 1, Nodes: slices.Clone(m.Nodes)}
	for i := range next.Nodes {
		next.Nodes[i].For = m.OutFor(next.Nodes[i].Name, held)
	}
	return next
}

// maxOutFor is longer than anything that is waited for.
const maxOutFor = 10 * 366 * 24 * time.Hour

// OutFor returns for how long at least a node has been out, or missed, given that m has been held
// for so long: 0 for one that is neither.
func (m Membership) OutFor(name string, held time.Duration) time.Duration {
	n, _ := m.Node(name)
	if !n.Out && !n.Missed {
		return 0
	}
	return min(n.For+max(held, 0), maxOutFor)
}

// GivenUp is after how long nothing that a node granted matters any more that was put out, counted
// from when the generation that put it out was chosen. For so long after a read began, a process
// relies on what it found; lasts is how long a grant may matter, with leases and bookings: 0 tells
// when the node grants nothing more. From then on what its shards had counts as given up, and may
// be raised elsewhere.
//
// By one clock a time may take 1 % longer than by another, and it is rounded up to the microseconds
// of the nodes' clocks.
func GivenUp(confirm, lasts time.Duration) time.Duration {
	d := confirm + lasts
	d += (d + 99) / 100
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// Encode returns the stored form of a membership.
func (m Membership) Encode() (string, error) {
	text, err := json.Marshal(m)
	return string(text), errors.Join(m.Validate(), err)
}

// DecodeMembership returns the membership of a stored form.
func DecodeMembership(text string) (m Membership, err error) {
	if err = json.Unmarshal([]byte(text), &m); err == nil {
		err = m.Validate()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("the nodes that are in cannot be read by this version: %w", err)
	}
	return m, nil
}

// Validate returns an error if there can be no such membership.
func (m Membership) Validate() error {
	if m.Generation < 1 || m.Generation > MaxNumber || len(m.Nodes) > MaxNodes {
		return fmt.Errorf("%w: generation %d, %d nodes", ErrMembership, m.Generation, len(m.Nodes))
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
	if in == 0 {
		return ErrTooFewPlaces
	}
	return nil
}

func (n Node) valid(generation int64) bool {
	return len(n.Name) >= 1 && len(n.Name) <= MaxName && utf8.ValidString(n.Name) &&
		n.Since >= 1 && n.Since <= generation &&
		n.For >= 0 && n.For <= maxOutFor && (n.Out || n.Missed || n.For == 0) && !(n.Missed && n.Out)
}

func byName(a, b Node) int { return cmp.Compare(a.Name, b.Name) }
