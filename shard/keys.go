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
	Epoch int64 `json:"epoch"`
	Spec        // of what is stored only that on which it depends what a key may hold
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

// Only returns where the only shard of a key is; ok is false if it has several, or may have to move.
// The layouts of all keys with the same place and terms differ in nothing.
func (k *Keys) Only(id string) (at Location, ok bool) {
	if k == nil || k.Shards != 1 || k.Moving() {
		return Location{}, false
	}
	return Location{k.positions(id, 1)[0], k.Nodes[Place(id, 1, k.Nodes)[0]].Name}, true
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
	if next.Cut = next.Moving(); !next.Cut && k.Moving() {
		next.Fell = false
	}
	return next
}

// Specs returns the specs under which keys may hold something, of the layout l of a family.
func (l Layout) Specs() []Spec {
	specs := []Spec{l.Spec()}
	if l.Keys != nil {
		for _, p := range l.Keys.Before {
			specs = append(specs, p.Spec)
		}
	}
	return specs
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

// ForKey returns the layout of one key with these terms under the layout l of its family: settled if
// the key has nothing to move, else with the shards of the arrangements before as leaving ones. What
// those have is unknown if the terms came with a call: others may have come before.
func (l Layout) ForKey(id string, own Terms) (Layout, error) {
	if l.Keys == nil {
		return Layout{}, fmt.Errorf("%w: not the layout of a family with an arrangement", ErrInvalidLayout)
	}
	var at Layout
	came := own != Terms{}
	fell := l.Keys.Cut || came
	for i, p := range l.moments() {
		s := own.Over(p.Spec)
		next, err := at.keyAfter(int64(i+1), s, p.shards(id, s), l.fenceOf(p.Arrangement), fell)
		if err != nil {
			return Layout{}, err
		}
		fell = came || p.Fell || next.Settled && (fell || falls(at, next))
		at = next
	}
	if at.Epoch = l.Epoch; at.Changed > 0 {
		at.Changed = l.Epoch
	}
	return at, nil
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

// falls reports whether a shard has less under the next layout. What is in use above that stays.
func falls(l, next Layout) bool {
	at := places(next.Shards)
	for _, s := range l.Shards {
		if i, ok := at[s.Site()]; !ok || next.Shards[i].Share < s.Share || burstOf(next.Shards[i]) < burstOf(s) {
			return true
		}
	}
	return false
}

// keyAfter returns the layout of a key that follows l; the zero layout is that of a new key. It is
// settled at once if its shards can change over one by one. fell tells that shards may hold more
// than l says: their shares fell lately, and what was in use then may be in use.
func (l Layout) keyAfter(epoch int64, s Spec, shards []Shard, under *Fence, fell bool) (Layout, error) {
	if l.Fence = under; l.Epoch == 0 {
		next := s.layout(epoch)
		next.Settled, next.Shards, next.Fence = true, shards, under
		return next.checked()
	}
	if epoch <= l.Epoch {
		return Layout{}, fmt.Errorf("%w: epoch %d does not follow %d", ErrInvalidLayout, epoch, l.Epoch)
	}
	next, err := l.follow(epoch, s, shards)
	switch {
	case err != nil || next.Settled:
		return next, err
	case l.Settled && oneByOne(l, next):
		return next.Settle(), nil
	case l.Settled && fell:
		l.Settled = false
		return l.follow(epoch, s, shards)
	}
	return next, nil
}

// oneByOne reports whether the shards of a settled layout may take over what the next one says in
// any order: the greater of what each has in the two sums to no more than the greater limit.
func oneByOne(l, next Layout) bool {
	if l.Algorithm != next.Algorithm {
		return false
	}
	at := places(l.Shards)
	var share, burst, was, is int64
	for _, s := range l.Shards {
		was += burstOf(s)
	}
	for _, s := range next.Shards {
		is += burstOf(s)
		if i, ok := at[s.Site()]; ok && s.Share > 0 {
			share += max(s.Share, l.Shards[i].Share)
			burst += max(burstOf(s), burstOf(l.Shards[i]))
			delete(at, s.Site())
		} else if s.Share > 0 {
			share += s.Share
			burst += burstOf(s)
		}
	}
	if len(at) > 0 {
		return false // a shard that is to hold nothing must be told
	}
	return share <= max(l.Permits, next.Permits) && burst <= max(was, is)
}

// burstOf is what a shard may grant at once.
func burstOf(s Shard) int64 {
	if s.Burst > 0 {
		return s.Burst
	}
	return s.Share
}

// KeysAfter returns the keys of the layout that follows l, with the spec s and an arrangement: they
// say what keys have to be moved from. The layout of a new family has none.
func (l Layout) KeysAfter(s Spec, to Arrangement) (*Keys, error) {
	to.Nodes = normal(to.Nodes)
	next := &Keys{Arrangement: to, Longest: s.Lasts()}
	if l.Keys == nil {
		return next, nil
	}
	from := l.Keys.Arrangement
	past := Past{from, l.Epoch, l.Spec()}
	past.Revision, past.Mode, past.Auto = 0, "", false
	next.Before, next.Longest = slices.Clone(l.Keys.Before), max(next.Longest, l.Keys.Longest)
	if l.Keys.Moving() {
		next.Since, next.SinceAt, next.Upto, next.Cut = l.Keys.Since, l.Keys.SinceAt, l.Keys.Upto, l.Keys.Cut
	}
	most := maxBefore
	if len(l.Keys.Before) > maxBefore { // they come of layouts that became one
		most = maxMerged
	}
	oneByOne := len(next.Before) == 0 && slices.Equal(from.Nodes, to.Nodes) && from.Slots == to.Slots &&
		past.changesOneByOne(s, to)
	if oneByOne {
		next.Fell = from.Fell || s.Permits < past.Spec.Permits || s.atOnce() < past.Spec.atOnce()
		return next, nil
	}
	if next.Before = needed(append(next.Before, past)); len(next.Before) > most {
		return nil, ErrTooManyMoves
	}
	return next, nil
}

// needed leaves out of several arrangements in order what the others say as well. Of those with the
// same shards, or some of them, the latest and the greatest are enough, as no shard is known to
// hold what any of them says. One that says more than a later one is remembered as long as that.
// The first stays all the same: what follows a single one counts on what that says.
func needed(pasts []Past) []Past {
	last := len(pasts) - 1
	var kept []Past
	for _, p := range pasts[:last] {
		if len(kept) > 0 && p.within(pasts[last]) {
			continue
		}
		if i := slices.IndexFunc(kept, p.within); i >= 0 {
			p.Arrangement, p.Spec = kept[i].Arrangement, kept[i].Spec
			if kept = slices.Delete(kept, i, i+1); i == 0 && len(kept) > 0 {
				kept[0].Fell = true // it follows what is no longer before it
			}
		}
		kept = append(kept, p)
	}
	return append(kept, pasts[last])
}

// within reports whether every shard of a key under p is one under q, with as much or less.
func (p Past) within(q Past) bool {
	return p.same(q.Arrangement) && p.Spec.Algorithm == q.Spec.Algorithm && p.Spec.fits(p.Arrangement) ==
		q.Spec.fits(q.Arrangement) && p.Spec.Permits <= q.Spec.Permits && p.Spec.atOnce() <= q.Spec.atOnce() &&
		(!p.Fell || q.Fell)
}

// atOnce is how many permits may be granted at once.
func (s Spec) atOnce() int64 { return cmp.Or(s.Burst, s.Permits) }

// fits is among how many places the shards of a key are.
func (s Spec) fits(a Arrangement) int {
	n := a.Shards
	if s.Burst > 0 {
		n = Fit(s.Burst, n, Slots)
	}
	return n
}

// changesOneByOne reports whether keys that are arranged over the same nodes may take over
// another limit shard by shard. It is so for all keys or for none.
func (p Past) changesOneByOne(s Spec, to Arrangement) bool {
	one := []Node{{Name: "any", Weight: 1}}
	from := p.Arrangement
	from.Nodes, to.Nodes = one, one
	if p.Spec.fits(p.Arrangement) != s.fits(to) {
		return false
	}
	at, err := Layout{}.keyAfter(1, p.Spec, from.shards("", p.Spec), nil, false)
	if err != nil {
		return false
	}
	next, err := at.keyAfter(2, s, to.shards("", s), nil, false)
	return err == nil && next.Settled
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
			pasts, merged.Longest = append(pasts, of.moments()...), max(merged.Longest, of.Keys.Longest)
		}
	}
	if len(pasts) == 1 {
		return merged, nil
	}
	slices.SortStableFunc(pasts, func(a, b Past) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := range pasts[1:] {
		pasts[i+1].Epoch = max(pasts[i+1].Epoch, pasts[i].Epoch+1)
	}
	merged.Cut, merged.Before = true, needed(pasts)
	if len(merged.Before) > maxMerged {
		return nil, ErrTooManyMoves
	}
	return merged, nil
}

// moments returns what held under the layout, as far as it is remembered. The last one is in force.
func (l Layout) moments() []Past {
	return append(slices.Clone(l.Keys.Before), Past{l.Keys.Arrangement, l.Epoch, l.Spec()})
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
		if err := p.Spec.validate(p.Epoch); err != nil {
			return fmt.Errorf("before %d: %w", i, err)
		}
	}
	return nil
}

// validate checks what does not depend on shards, by the rules for a layout.
func (s Spec) validate(epoch int64) error {
	l := s.layout(epoch)
	l.Settled, l.Shards = true, s.live([]Shard{{Node: "any", Share: s.Permits}})
	return l.validate()
}
