package majority

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
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

// Standing is how a node stands in a generation.
type Standing uint8

// The standings of a node.
const (
	In        Standing = iota + 1 // it serves its shards
	Leaving                       // it serves them until they have moved, and gets no more
	Out                           // nobody asks it anything
	Returning                     // its shards may only acknowledge that they have no share
)

// Node is a node of a membership.
type Node struct {
	Name     string
	Standing Standing
	Since    int64 // the generation in which it went out; 0: it is in or leaving
	// For so long at least it had been out when this generation was made, by the clocks of the
	// places.
	OutFor time.Duration
}

// Membership is which nodes of a key prefix are in. It is the value of one register. A method that
// changes it returns the next generation; it never changes m.
type Membership struct {
	Generation int64
	Places     []string // the nodes that hold the register, in its order
	Nodes      []Node   // by name
}

// NewMembership returns the first generation.
func NewMembership(places []string, nodes ...string) (Membership, error) {
	m := Membership{Generation: 1, Places: slices.Clone(places)}
	for _, name := range slices.Sorted(slices.Values(nodes)) {
		m.Nodes = append(m.Nodes, Node{Name: name, Standing: In})
	}
	return m, m.Validate()
}

// Node returns a node, and whether there is one of that name.
func (m Membership) Node(name string) (Node, bool) {
	for _, n := range m.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Serves reports whether a process that has confirmed the generation may ask a node for permits.
func (m Membership) Serves(name string) bool {
	n, _ := m.Node(name)
	return n.Standing == In || n.Standing == Leaving
}

// Buries reports whether it may only ask the node's shards to acknowledge that they have no share.
func (m Membership) Buries(name string) bool {
	n, _ := m.Node(name)
	return n.Standing == Returning
}

// PutOut puts a node out. held is for how long m has been held, as Found or Reading tells.
func (m Membership) PutOut(name string, held time.Duration) (Membership, error) {
	return m.change(name, held, Out, In, Leaving, Returning)
}

// ComeBack lets a node that is out answer again, without a share.
func (m Membership) ComeBack(name string, held time.Duration) (Membership, error) {
	return m.change(name, held, Returning, Out)
}

// Drain has a node leave.
func (m Membership) Drain(name string, held time.Duration) (Membership, error) {
	return m.change(name, held, Leaving, In)
}

// Add has a node in: one that is new, that was to leave, or whose shards have all acknowledged,
// since it returned, that they have no share. Only the caller knows the last.
func (m Membership) Add(name string, held time.Duration) (Membership, error) {
	if _, known := m.Node(name); known {
		return m.change(name, held, In, Leaving, Returning)
	}
	next := m.next(held)
	next.Nodes = append(next.Nodes, Node{Name: name, Standing: In})
	slices.SortFunc(next.Nodes, byName)
	return next.checked()
}

// Remove forgets a node that was to leave and has no shard any more. A node that holds a place
// stays.
func (m Membership) Remove(name string, held time.Duration) (Membership, error) {
	n, known := m.Node(name)
	switch {
	case !known:
		return Membership{}, fmt.Errorf("%w %q", ErrUnknownNode, name)
	case n.Standing != Leaving || slices.Contains(m.Places, name):
		return Membership{}, fmt.Errorf("%w: %q", ErrStanding, name)
	}
	next := m.next(held)
	next.Nodes = slices.DeleteFunc(next.Nodes, func(n Node) bool { return n.Name == name })
	return next.checked()
}

func (m Membership) change(name string, held time.Duration, to Standing, from ...Standing) (Membership, error) {
	next := m.next(held)
	i := slices.IndexFunc(next.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Membership{}, fmt.Errorf("%w %q", ErrUnknownNode, name)
	}
	n := &next.Nodes[i]
	if !slices.Contains(from, n.Standing) {
		return Membership{}, fmt.Errorf("%w: %q", ErrStanding, name)
	}
	switch {
	case to == Out && n.Standing != Returning:
		n.Since, n.OutFor = next.Generation, 0
	case to == In || to == Leaving:
		n.Since, n.OutFor = 0, 0
	}
	n.Standing = to
	return next.checked()
}

// next is the generation after m, which was held for so long.
func (m Membership) next(held time.Duration) Membership {
	next := Membership{Generation: m.Generation + 1, Places: slices.Clone(m.Places), Nodes: slices.Clone(m.Nodes)}
	for i := range next.Nodes {
		if n := &next.Nodes[i]; n.Since != 0 {
			n.OutFor = min(n.OutFor+max(held, 0), maxOutFor)
		}
	}
	return next
}

// maxOutFor is longer than any term: to have been out longer makes no difference.
const maxOutFor = 10 * maxTerm

// OutFor is for how long at least a node has been out, given that m has been held for so long: 0
// for one that is not.
func (m Membership) OutFor(name string, held time.Duration) time.Duration {
	n, _ := m.Node(name)
	if n.Since == 0 {
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
		if n.Standing == In {
			in++
		}
	}
	left := 0
	for i, name := range m.Places {
		n, known := m.Node(name)
		if !known || slices.Contains(m.Places[:i], name) {
			return fmt.Errorf("%w: place %q", ErrMembership, name)
		}
		if n.Standing != Out {
			left++
		}
	}
	if in == 0 || left < Majority(len(m.Places)) {
		return ErrTooFewPlaces
	}
	return nil
}

func (n Node) valid(generation int64) bool {
	if len(n.Name) < 1 || len(n.Name) > MaxName || n.OutFor < 0 || n.OutFor > maxOutFor {
		return false
	}
	switch n.Standing {
	case In, Leaving:
		return n.Since == 0 && n.OutFor == 0
	case Out, Returning:
		return n.Since >= 1 && n.Since <= generation
	}
	return false
}

func byName(a, b Node) int { return cmp.Compare(a.Name, b.Name) }
