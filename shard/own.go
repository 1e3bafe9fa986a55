package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How many keys of a family may have a limit of their own, and what the record may keep for them.
const (
	MaxOwn      = 1000       // keys
	maxOwnBytes = 128 * 1024 // of their ids
	maxOwnPasts = 4096       // limits before, of all keys
)

// ErrTooManyOwn tells that no more keys of a family can have a limit of their own.
var ErrTooManyOwn = fmt.Errorf("too many keys have a limit of their own: at most %d keys, with %d bytes of ids, do",
	MaxOwn, maxOwnBytes)

// OwnError tells that a key's own limit is none under what its family is to have.
type OwnError struct {
	ID  string
	Err error
}

func (e *OwnError) Error() string { return fmt.Sprintf("own limit of key %q: %v", e.ID, e.Err) }
func (e *OwnError) Unwrap() error { return e.Err }

// Terms are what a key's own limit says. All else is its family's. The zero Terms are its family's,
// too.
type Terms struct {
	Permits int64         `json:"permits,omitempty"`
	Window  time.Duration `json:"window_ns,omitempty"`
	Burst   int64         `json:"burst,omitempty"`
	Lease   time.Duration `json:"lease_ns,omitempty"`
	Mode    string        `json:"mode,omitempty"`
}

// Over returns the spec of a key with these terms, in a family that has the spec s.
func (t Terms) Over(s Spec) Spec {
	if t.Permits != 0 {
		s.Permits, s.Window, s.Burst, s.Lease = t.Permits, t.Window, t.Burst, t.Lease
		s.Mode = t.Mode
	}
	return s
}

// termsOf are the terms on which it depends what shards hold.
func termsOf(s Spec) Terms { return Terms{s.Permits, s.Window, s.Burst, s.Lease, ""} }

// Own is a key that has a limit of its own, or had one lately.
type Own struct {
	ID string // any bytes, so it is not stored as text
	Terms
	// what shards of the key may still hold, oldest first; of several with one epoch each may have
	// held up to that
	Before []OwnPast
}

// ownJSON is the stored form of an Own.
type ownJSON struct {
	ID []byte `json:"id"`
	Terms
	Before []OwnPast `json:"before,omitempty"`
}

// MarshalJSON returns the stored form of o.
func (o Own) MarshalJSON() ([]byte, error) {
	return json.Marshal(ownJSON{[]byte(o.ID), o.Terms, o.Before})
}

// UnmarshalJSON sets o from its stored form.
func (o *Own) UnmarshalJSON(data []byte) error {
	var stored ownJSON
	err := json.Unmarshal(data, &stored)
	*o = Own{string(stored.ID), stored.Terms, stored.Before}
	return err
}

// OwnPast is what held for a key up to an epoch.
type OwnPast struct {
	Epoch   int64 `json:"epoch"`
	Terms         // never zero
	Follows bool  `json:"follows,omitempty"` // they were its family's
}

// own returns what the record says of a key by itself.
func (k *Keys) own(id string) (o Own, ok bool) {
	i, ok := slices.BinarySearchFunc(k.Own, id, func(o Own, id string) int { return cmp.Compare(o.ID, id) })
	if ok {
		o = k.Own[i]
	}
	return o, ok
}

// Changing reports whether anything is remembered from before.
func (k *Keys) Changing() bool {
	return k.Moving() || k.ownChanging()
}

// ownChanging reports whether any key had another limit of its own, or none, lately.
func (k *Keys) ownChanging() bool {
	return k != nil && slices.ContainsFunc(k.Own, func(o Own) bool { return len(o.Before) > 0 })
}

// Waits reports whether more has changed since Since was noted, but so little that all of it can be
// forgotten together, later. To forget a part has the shards of every key asked once more.
func (k *Keys) Waits() bool {
	later, all := false, len(k.Before)
	for _, p := range k.Before {
		later = later || k.Upto > 0 && p.Epoch >= k.Upto
	}
	for _, o := range k.Own {
		all += len(o.Before)
		for _, b := range o.Before {
			later = later || k.Upto > 0 && b.Epoch >= k.Upto
		}
	}
	return later && all <= maxBefore/2
}

// Forget returns the keys without what they may have held before, as far as that was known when
// Since was noted.
func (k *Keys) Forget() *Keys {
	upto := k.Upto
	if upto == 0 {
		upto = MaxEpoch + 1
	}
	next := &Keys{Arrangement: k.Arrangement}
	for _, p := range k.Before {
		if p.Epoch >= upto {
			next.Before = append(next.Before, p)
		}
	}
	if len(next.Before) == 0 && k.Moving() {
		next.Fell = false
	}
	for _, o := range k.Own {
		kept := Own{ID: o.ID, Terms: o.Terms}
		for _, b := range o.Before {
			if b.Epoch >= upto {
				kept.Before = append(kept.Before, b)
			}
		}
		if o.Terms != (Terms{}) || len(kept.Before) > 0 {
			next.Own = append(next.Own, kept)
		}
	}
	next.Cut = next.Changing()
	return next
}

// Specs returns the specs under which keys may hold something, of the layout l of a family.
func (l Layout) Specs() []Spec {
	specs := []Spec{l.Spec()}
	if l.Keys == nil {
		return specs
	}
	for _, p := range l.Keys.Before {
		specs = append(specs, p.Spec)
	}
	byAlgorithm := slices.Clone(specs)
	slices.SortFunc(byAlgorithm, func(a, b Spec) int { return cmp.Compare(a.Algorithm, b.Algorithm) })
	byAlgorithm = slices.CompactFunc(byAlgorithm, func(a, b Spec) bool { return a.Algorithm == b.Algorithm })
	for _, o := range l.Keys.Own {
		for _, s := range byAlgorithm {
			specs = append(specs, o.Terms.Over(s))
			for _, b := range o.Before {
				specs = append(specs, b.Terms.Over(s))
			}
		}
	}
	return specs
}

// pasts returns what held for a key, oldest first; the last one is in force.
func (l Layout) pasts(id string) []Past {
	o, ok := l.Keys.own(id)
	if !ok {
		return l.pastsOfAll()
	}
	var pasts []Past
	for _, p := range l.moments([]Own{o}) {
		for _, s := range o.at(p) {
			pasts = append(pasts, Past{p.Arrangement, p.Epoch, s})
		}
	}
	return pasts
}

// before is what a record keeps of arrangements in order: what is needed, and all while they may
// tell where a key was under another limit of its own.
func (k *Keys) before(pasts []Past) []Past {
	if k.ownChanging() {
		return pasts
	}
	return needed(pasts)
}

// pastsOfAll are the pasts of keys that never had a limit of their own.
func (l Layout) pastsOfAll() []Past {
	if !l.Keys.ownChanging() {
		return l.moments(nil)
	}
	var kept []Past
	for _, p := range l.Keys.Before { // as if each had been left out when the next one came
		kept = needed(append(kept, p))
	}
	l.Keys = &Keys{Arrangement: l.Keys.Arrangement, Before: kept}
	return l.moments(nil)
}

// at returns the specs that the key may have had while its family had p.
func (o Own) at(p Past) (specs []Spec) {
	first := slices.IndexFunc(o.Before, func(b OwnPast) bool { return b.Epoch >= p.Epoch })
	if first < 0 {
		return []Spec{o.Terms.Over(p.Spec)}
	}
	for _, b := range o.Before[first:] {
		switch {
		case b.Epoch > o.Before[first].Epoch:
			return specs
		case b.Epoch > p.Epoch && b.Follows:
			specs = append(specs, p.Spec)
		default:
			specs = append(specs, b.Terms.Over(p.Spec))
		}
	}
	return specs
}

// KeysWith returns the keys of the layout that follows l when the key of this id gets a limit of
// its own, or with zero terms has its family's again. It returns nil if it is so already.
func (l Layout) KeysWith(id string, t Terms) (*Keys, error) {
	i, ok := slices.BinarySearchFunc(l.Keys.Own, id, func(o Own, id string) int { return cmp.Compare(o.ID, id) })
	next := &Keys{Arrangement: l.Keys.Arrangement, Before: l.Keys.Before, Own: slices.Clone(l.Keys.Own)}
	if l.Keys.Changing() {
		next.Since, next.SinceAt, next.Upto, next.Cut = l.Keys.Since, l.Keys.SinceAt, l.Keys.Upto, l.Keys.Cut
	}
	if !ok {
		next.Own = slices.Insert(next.Own, i, Own{ID: id})
	}
	o := &next.Own[i]
	if o.Terms == t {
		return nil, nil
	}
	if err := t.Over(l.Spec()).validate(l.Epoch); err != nil {
		return nil, &OwnError{id, err}
	}
	o.Before = append(slices.Clone(o.Before),
		OwnPast{l.Epoch, termsOf(o.Terms.Over(l.Spec())), o.Terms == Terms{}})
	o.Terms = t
	return next, next.room(i)
}

// room reports whether a change of one key leaves no more to remember than a record may hold. What
// the others have is theirs, also after layouts became one.
func (k *Keys) room(changed int) error {
	own, ids, pasts := 0, 0, 0
	for _, o := range k.Own {
		ids += len(o.ID)
		pasts += len(o.Before)
		if o.Terms != (Terms{}) {
			own++
		}
	}
	before, last := 0, int64(0)
	for _, b := range k.Own[changed].Before {
		if b.Epoch > last { // several with one epoch come of layouts that became one
			before, last = before+1, b.Epoch
		}
	}
	switch {
	case own > MaxOwn || len(k.Own) > 2*MaxOwn || ids > maxOwnBytes:
		return ErrTooManyOwn
	case before > maxBefore || pasts > maxOwnPasts:
		return ErrTooManyMoves
	}
	return nil
}

// ownUnder returns why the own limits cannot be in a family with the spec s, if one cannot.
func (k *Keys) ownUnder(s Spec, epoch int64) error {
	for _, o := range k.Own {
		if err := o.Terms.Over(s).validate(epoch); err != nil {
			return &OwnError{o.ID, err}
		}
	}
	return nil
}

// moments returns what held under the layout, as far as it is remembered, with the epochs at which
// an own limit ended. The last one is in force.
func (l Layout) moments(own []Own) []Past {
	pasts := append(slices.Clone(l.Keys.Before), Past{l.Keys.Arrangement, l.Epoch, l.Spec()})
	for _, o := range own {
		for _, b := range o.Before {
			i, found := slices.BinarySearchFunc(pasts, b.Epoch,
				func(p Past, e int64) int { return cmp.Compare(p.Epoch, e) })
			if !found {
				p := pasts[i] // what held then: l.Epoch is later than any b.Epoch
				p.Epoch = b.Epoch
				pasts = slices.Insert(pasts, i, p)
			}
		}
	}
	return pasts
}

// mergedOwn returns the own limits of the layout that follows several, the last one of which it is
// like. A key that had several limits may have had each under every arrangement before.
func mergedOwn(layouts []Layout, before []Past) (merged []Own) {
	var ids []string
	for _, l := range layouts {
		for _, o := range l.Keys.Own {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	last := layouts[len(layouts)-1]
	for _, id := range slices.Compact(ids) {
		is, _ := last.Keys.own(id)
		next := Own{ID: id, Terms: is.Terms}
		if !constant(layouts, id) {
			for _, t := range greatest(layouts, id, before) {
				next.Before = append(next.Before, OwnPast{Epoch: before[len(before)-1].Epoch, Terms: t})
			}
		}
		merged = append(merged, next)
	}
	return merged
}

// constant reports whether a key had the same limit of its own under all layouts.
func constant(layouts []Layout, id string) bool {
	first, _ := layouts[0].Keys.own(id)
	return first.Terms != Terms{} && !slices.ContainsFunc(layouts, func(l Layout) bool {
		o, _ := l.Keys.own(id)
		return o.Terms != first.Terms || len(o.Before) > 0
	})
}

// greatest returns the limits that a key had under layouts, without those that are within others
// under each arrangement.
func greatest(layouts []Layout, id string, before []Past) (terms []Terms) {
	for _, l := range layouts {
		for _, p := range l.pasts(id) {
			t := termsOf(p.Spec)
			within := func(u Terms) bool { return t.within(u, before) }
			if slices.ContainsFunc(terms, within) {
				continue
			}
			terms = append(slices.DeleteFunc(terms, func(u Terms) bool { return u.within(t, before) }), t)
		}
	}
	return terms
}

// within reports whether a key has the same shards under t as under u, with as much or less for as
// long or shorter, under each of the arrangements.
func (t Terms) within(u Terms, under []Past) bool {
	fill := func(t Terms) float64 { return float64(t.Burst) / float64(t.Permits) }
	if t.Permits > u.Permits || t.Over(Spec{}).atOnce() > u.Over(Spec{}).atOnce() || t.Window > u.Window ||
		t.Lease > u.Lease || fill(t) > fill(u) {
		return false
	}
	return !slices.ContainsFunc(under, func(p Past) bool {
		return t.Over(p.Spec).fits(p.Arrangement) != u.Over(p.Spec).fits(p.Arrangement)
	})
}

func (k *Keys) validateOwn(epoch int64, s Spec) error {
	for i, o := range k.Own {
		switch {
		case o.ID == "" || i > 0 && strings.Compare(k.Own[i-1].ID, o.ID) >= 0:
			return fmt.Errorf("own limits are not in order at %q", o.ID)
		case o.Terms == Terms{} && len(o.Before) == 0:
			return fmt.Errorf("key %q has nothing of its own", o.ID)
		case o.Terms.Permits == 0 && o.Terms != Terms{}:
			return fmt.Errorf("the own limit of key %q has no permits", o.ID)
		}
		last := int64(0)
		for _, b := range o.Before {
			if b.Epoch < max(last, 1) || b.Epoch >= epoch || b.Terms.Permits == 0 {
				return &OwnError{o.ID, errors.New("what was before is not in order")}
			}
			last = b.Epoch
			// under whichever algorithm: of a bucket only, a burst is more than the permits
			if err := b.Terms.Over(Spec{Algorithm: s.Algorithm, Scope: s.Scope}).validate(b.Epoch); err != nil {
				return &OwnError{o.ID, err}
			}
		}
	}
	return k.ownUnder(s, epoch)
}
