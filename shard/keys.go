package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// How many arrangements a family remembers from before the one in force.
const (
	// maxBefore is how many there may be for keys to be placed on a node on which they are not, or
	// to get another algorithm.
	maxBefore = 16
	// mostBefore is how many there may be at all. The more are for nodes that keys have to leave.
	mostBefore = 128
)

// ErrTooManyMoves tells that a family was arranged anew too often for the time that a move takes.
// That passes.
var ErrTooManyMoves = errors.New("too many arrangements of the family's keys are still being left")

// Past is an arrangement that was in force, under which a key may still hold something.
type Past struct {
	Arrangement
	Algorithm string `json:"algorithm"`
	// LeftFor is for how long at least it had been left when this record was written.
	LeftFor time.Duration `json:"left_for_ns,omitempty"`
}

// same reports whether every key has its shard at the same site.
func (p Past) same(q Past) bool {
	return p.Algorithm == q.Algorithm && slices.Equal(p.Nodes, q.Nodes)
}

// Keys is what the record of a family says about its keys.
type Keys struct {
	Arrangement
	Before []Past `json:"before,omitempty"` // that keys may still have to be moved from, oldest first
	// Longest is how long a grant of a key can count, under any limit that the family ever had. No
	// limit that comes with a call may make it longer.
	Longest time.Duration `json:"longest_ns"`
}

// Moving reports whether all keys may still have to be moved.
func (k *Keys) Moving() bool { return k != nil && len(k.Before) > 0 }

// OnlyOf returns where the shard of the key prefix+end is; ok is false if the key may have to move.
// The layouts of all keys with the same place and terms differ in nothing. The two are put together
// only where there are several nodes.
func (k *Keys) OnlyOf(prefix, end string) (at Location, ok bool) {
	if k == nil || k.Moving() {
		return Location{}, false
	}
	host := 0
	if len(k.Nodes) > 1 {
		host = placeOne(prefix+end, k.Nodes)
	}
	return Location{keySlot(homeOf(prefix, end)), k.Nodes[host].Name}, true
}

// Over reports whether keys are placed over just these nodes.
func (k *Keys) Over(nodes []Node) bool { return slices.Equal(k.Nodes, normal(nodes)) }

// Fit divides nodes into those over which keys may be placed now, with [Layout.Rearrange], and
// those that have to come later. While too many arrangements are being left, keys are placed only
// on nodes where they are. So a node that comes and goes stays away until some are forgotten. If
// they are on none of the nodes, all may be taken nevertheless.
func (k *Keys) Fit(nodes []Node) (now, later []Node) {
	if len(k.Before) < maxBefore {
		return nodes, nil
	}
	for _, n := range nodes {
		if k.on(n) {
			now = append(now, n)
		} else {
			later = append(later, n)
		}
	}
	if now == nil {
		return nodes, nil
	}
	return now, later
}

// aged returns the keys of the next record, given for how long that of k was held. It returns a
// copy, but for the nodes.
func (k *Keys) aged(held time.Duration) *Keys {
	if k == nil {
		return nil
	}
	next := *k
	next.Before = slices.Clone(k.Before)
	for i := range next.Before {
		p := &next.Before[i]
		p.LeftFor = min(p.LeftFor+min(surely(held), maxLeft), maxLeft)
	}
	return &next
}

// Forgettable reports whether arrangements before were left for so long, and it is worth a new
// record to forget them. To forget a part has the shards of every key asked once more: while there
// are few, that waits until all can be forgotten.
func (l Layout) Forgettable(held, after time.Duration) bool {
	if !l.Keys.Moving() {
		return false
	}
	n := leftFor(l.Keys.aged(held).Before, after)
	return n == len(l.Keys.Before) || n > 0 && len(l.Keys.Before) > maxBefore/2
}

// leftFor returns how many of the pasts, oldest first, were left for so long.
func leftFor(before []Past, after time.Duration) int {
	n := slices.IndexFunc(before, func(p Past) bool { return p.LeftFor < after })
	if n < 0 {
		return len(before)
	}
	return n
}

// Forget returns the layout of a family that is to follow l, without those arrangements before that
// were left for so long. If others stay, the one in force is listed with them: nobody knows what a
// key holds there.
func (l Layout) Forget(epoch int64, held, after time.Duration) (Layout, error) {
	keys := l.Keys.aged(held)
	if keys.Before = keys.Before[leftFor(keys.Before, after):]; keys.Moving() {
		keys.Before = distinct(append(keys.Before, l.Keys.past(l.Algorithm)))
	}
	return l.follow(epoch, l.Spec, l.Live(), keys, held)
}

// past returns the arrangement in force as one before.
func (k *Keys) past(algorithm string) Past {
	return Past{Arrangement: k.Arrangement, Algorithm: algorithm}
}

// Rearrange returns the layout of a family that is to follow l, with its keys placed over nodes.
// While too many arrangements are being left, it is ErrTooManyMoves unless keys have to leave a
// node: ask [Keys.Fit] first.
func (l Layout) Rearrange(epoch int64, nodes []Node, held time.Duration) (Layout, error) {
	keys, err := keysAfter(l, l.Spec, Arrangement{nodes}, held)
	if err != nil {
		return Layout{}, err
	}
	return l.follow(epoch, l.Spec, l.Live(), keys, held)
}

// Terms are what a limit says that comes with the calls for a key. All else is its family's. The
// zero Terms are its family's, too.
type Terms struct {
	Permits, Burst, Revision int64
	Window                   time.Duration
	Mode                     string
}

// Over returns the spec of a key with these terms, in a family that has the spec s.
func (t Terms) Over(s Spec) Spec {
	if t.Permits != 0 {
		s.Permits, s.Window, s.Burst, s.Revision, s.Mode = t.Permits, t.Window, t.Burst, t.Revision, t.Mode
	}
	return s
}

// ForKey returns the layout of one key with these terms under the layout l of its family: one
// shard, and those of the arrangements before as leaving ones. Nobody knows what those have, as any
// limit may have come with a call. It is settled if the key has nothing to move.
func (l Layout) ForKey(id string, own Terms) (Layout, error) {
	s := own.Over(l.Spec)
	next := Layout{Epoch: l.Epoch, Spec: s, Fence: l.Fence}
	is := l.Keys.shard(id)
	is.Share = s.Permits
	next.Shards = s.live([]Shard{is})
	for _, p := range l.Keys.Before {
		was := p.shard(id)
		was.Algorithm, was.Start = p.Algorithm, Unknown
		if i := next.Index(was.Site()); i < 0 {
			next.Shards = append(next.Shards, was)
		} else {
			next.Shards[i].Start = Unknown
		}
	}
	if next.Settled = len(next.Shards) == 1; next.Settled {
		next.Shards[0].Start = 0
	}
	return checked(next)
}

// keysAfter returns the keys of the layout that follows l, with the spec s and an arrangement: they
// say what keys have to be moved from.
func keysAfter(l Layout, s Spec, to Arrangement, held time.Duration) (*Keys, error) {
	to.Nodes = normal(to.Nodes)
	next := l.Keys.aged(held)
	next.Arrangement, next.Longest = to, max(next.Longest, s.Lasts())
	past := l.Keys.past(l.Algorithm)
	if past.same(Past{Arrangement: to, Algorithm: s.Algorithm}) {
		return next, nil
	}
	next.Before = distinct(append(next.Before, past))
	leaves := slices.ContainsFunc(l.Keys.Nodes, func(n Node) bool { return !to.on(n) })
	if n := len(next.Before); n > mostBefore || n > maxBefore && !leaves {
		return nil, ErrTooManyMoves
	}
	return next, nil
}

// distinct leaves the last one of several pasts in order under which keys have the same shards.
func distinct(pasts []Past) (kept []Past) {
	for i, p := range pasts {
		if !slices.ContainsFunc(pasts[i+1:], p.same) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (k *Keys) validate(s Spec, under bool) error {
	if k == nil {
		return nil
	}
	if err := k.Arrangement.validate(); err != nil {
		return err
	}
	if k.fenced() != under {
		return fmt.Errorf("nodes with incarnations: %v, under a fence: %v", k.fenced(), under)
	}
	if k.Longest < s.Lasts() || k.Longest > maxLasts+s.Lease {
		return fmt.Errorf("grants count for %s at the longest, those of the limit for %s", k.Longest, s.Lasts())
	}
	if len(k.Before) > mostBefore {
		return fmt.Errorf("%d arrangements before", len(k.Before))
	}
	for i, p := range k.Before {
		if err := p.Arrangement.validate(); err != nil {
			return fmt.Errorf("before %d: %w", i, err)
		}
		if p.LeftFor < 0 || p.LeftFor > maxLeft || i > 0 && p.LeftFor > k.Before[i-1].LeftFor {
			return fmt.Errorf("before %d: left for %s, out of order", i, p.LeftFor)
		}
		if p.Algorithm == "" || !text(p.Algorithm) {
			return fmt.Errorf("before %d: algorithm %.80q", i, p.Algorithm)
		}
	}
	return nil
}
