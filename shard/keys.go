package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// How many arrangements a family remembers from before the one in force.
const (
	// maxBefore is how many there may be for it to be arranged anew.
	maxBefore = 16
	// maxMerged is how many there may be when layouts that nobody put in an order become one: each
	// of a few may have maxBefore, and nobody can be told to wait.
	maxMerged = 128
)

// ErrTooManyMoves tells that a family was arranged anew too often for the time that a move takes.
var ErrTooManyMoves = errors.New("too many arrangements of the family's keys are still being left")

// Past is an arrangement that was in force, under which a key may still hold something.
type Past struct {
	Arrangement
	Epoch     int64  `json:"epoch"`
	Algorithm string `json:"algorithm"`
}

// same reports whether every key has its shard at the same site.
func (p Past) same(q Past) bool {
	return p.Algorithm == q.Algorithm && p.Slots == q.Slots && slices.Equal(p.Nodes, q.Nodes)
}

// Keys is what the record of a family says about its keys.
type Keys struct {
	Arrangement
	Before []Past `json:"before,omitempty"` // that keys may still have to be moved from, oldest first
	// Longest is how long a grant of a key can count, under any limit that the family ever had. No
	// limit that comes with a call may make it longer.
	Longest time.Duration `json:"longest_ns"`
	// Cut tells that some of what was before was forgotten, or had no order: what shards have of
	// the rest is unknown.
	Cut bool `json:"cut,omitempty"`
	// Since is the time of node SinceAt, in microseconds, at which this record was found to be in
	// force there; 0: not yet known.
	Since   int64  `json:"since_us,omitempty"`
	SinceAt string `json:"since_at,omitempty"`
	// Upto is the epoch of the record then: what was before that is forgotten once its time is
	// over, whatever has changed since. 0: all of it.
	Upto int64 `json:"upto,omitempty"`
}

// Moving reports whether all keys may still have to be moved.
func (k *Keys) Moving() bool { return k != nil && len(k.Before) > 0 }

// Only returns where the shard of a key is; ok is false if the key may have to move. The layouts of
// all keys with the same place and terms differ in nothing.
func (k *Keys) Only(id string) (at Location, ok bool) {
	if k == nil || k.Moving() {
		return Location{}, false
	}
	s := k.shard(id)
	return Location{s.Slot, s.Node}, true
}

// Waits reports whether more has changed since Since was noted, but so little that all of it can be
// forgotten together, later. To forget a part has the shards of every key asked once more.
func (k *Keys) Waits() bool {
	return len(k.Before) <= maxBefore/2 &&
		slices.ContainsFunc(k.Before, func(p Past) bool { return k.Upto > 0 && p.Epoch >= k.Upto })
}

// Forget returns the keys without what they may have held before, as far as that was known when
// Since was noted.
func (k *Keys) Forget() *Keys {
	upto := cmp.Or(k.Upto, MaxEpoch+1)
	next := &Keys{Arrangement: k.Arrangement, Longest: k.Longest}
	for _, p := range k.Before {
		if p.Epoch >= upto {
			next.Before = append(next.Before, p)
		}
	}
	next.Cut = next.Moving()
	return next
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
	if l.Keys == nil {
		return Layout{}, fmt.Errorf("%w: not the layout of a family with an arrangement", ErrInvalidLayout)
	}
	s := own.Over(l.Spec())
	next := s.layout(l.Epoch)
	next.Fence = l.fenceOf(l.Keys.Arrangement)
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
		return next.checked()
	}
	if next.Changed = l.Epoch; l.Keys.Cut {
		next.Shards[0].Start = Unknown
	}
	return next.checked()
}

// fenceOf is the fence of a key under an arrangement: that of the layout, if its shards have lives.
func (l Layout) fenceOf(a Arrangement) *Fence {
	switch {
	case !a.fenced():
		return nil
	case l.Fence == nil: // the family is under none any more
		return &Fence{Places: []string{"none"}}
	}
	return l.Fence
}

// KeysAfter returns the keys of the layout that follows l, with the spec s and an arrangement: they
// say what keys have to be moved from. The layout of a new family has none.
func (l Layout) KeysAfter(s Spec, to Arrangement) (*Keys, error) {
	to.Nodes = normal(to.Nodes)
	next := &Keys{Arrangement: to, Longest: s.Lasts()}
	if l.Keys == nil {
		return next, nil
	}
	next.Before, next.Longest = l.Keys.Before, max(next.Longest, l.Keys.Longest)
	if l.Keys.Moving() {
		next.Since, next.SinceAt, next.Upto, next.Cut = l.Keys.Since, l.Keys.SinceAt, l.Keys.Upto, l.Keys.Cut
	}
	past := Past{l.Keys.Arrangement, l.Epoch, l.Algorithm}
	if past.same(Past{Arrangement: to, Algorithm: s.Algorithm}) {
		return next, nil
	}
	most := maxBefore
	if len(l.Keys.Before) > maxBefore { // they come of layouts that became one
		most = maxMerged
	}
	if next.Before = distinct(append(slices.Clone(next.Before), past)); len(next.Before) > most {
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

// mergedKeys returns the keys of the layout that follows both l and others. What one of them says
// was before stays: keys may hold something there.
func (l Layout) mergedKeys(others []Layout) (*Keys, error) {
	if l.Keys == nil {
		return nil, nil
	}
	merged := &Keys{Arrangement: l.Keys.Arrangement}
	var pasts []Past
	for _, of := range append(slices.Clone(others), l) {
		if of.Keys != nil {
			pasts = append(append(pasts, of.Keys.Before...), Past{of.Keys.Arrangement, of.Epoch, of.Algorithm})
			merged.Longest = max(merged.Longest, of.Keys.Longest)
		}
	}
	slices.SortStableFunc(pasts, func(a, b Past) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := range pasts[1:] {
		pasts[i+1].Epoch = max(pasts[i+1].Epoch, pasts[i].Epoch+1)
	}
	if merged.Before = distinct(pasts); len(merged.Before) == 1 {
		merged.Before = nil // all of one have what any has
	}
	merged.Cut = merged.Moving()
	if len(merged.Before) > maxMerged {
		return nil, ErrTooManyMoves
	}
	return merged, nil
}

func (k *Keys) validate(epoch int64, s Spec, under bool) error {
	if k == nil {
		return nil
	}
	if err := k.Arrangement.validate(); err != nil {
		return err
	}
	if k.fenced() != under {
		return fmt.Errorf("nodes with lives: %v, under a fence: %v", k.fenced(), under)
	}
	if k.Since < 0 || (k.Since == 0) != (k.SinceAt == "") || !utf8.ValidString(k.SinceAt) || k.Upto < 0 ||
		k.Upto > epoch {
		return fmt.Errorf("since %d at %q", k.Since, k.SinceAt)
	}
	if k.Longest < s.Lasts() || k.Longest > maxLasts+s.Lease {
		return fmt.Errorf("grants count for %s at the longest, those of the limit for %s", k.Longest, s.Lasts())
	}
	if len(k.Before) > maxMerged {
		return fmt.Errorf("%d arrangements before", len(k.Before))
	}
	var last int64
	for i, p := range k.Before {
		if err := p.Arrangement.validate(); err != nil {
			return fmt.Errorf("before %d: %w", i, err)
		}
		if p.Epoch <= last || p.Epoch >= epoch {
			return fmt.Errorf("before %d: epoch %d is not in order", i, p.Epoch)
		}
		last = p.Epoch
		if p.Algorithm == "" || !text(p.Algorithm) {
			return fmt.Errorf("before %d: algorithm %.80q", i, p.Algorithm)
		}
	}
	return nil
}
