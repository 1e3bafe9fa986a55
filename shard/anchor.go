package shard

import (
	"cmp"
	"slices"
)

// mostOrigins is how many anchors that it had before a layout remembers.
const mostOrigins = 8

// Origin is a place at which the record of a limit was anchored before, and the last epoch from
// there that a layout takes into account.
type Origin struct {
	Anchor Location `json:"anchor"`
	Epoch  int64    `json:"epoch"`
}

// AnchoredAt returns l with its record at anchor, as the one that follows those given: it remembers
// where they were anchored, and what they remember. It remembers the newest 8 places; whoever finds
// a layout from one that is forgotten has to merge with it.
func (l Layout) AnchoredAt(anchor Location, followed ...Layout) Layout {
	l.Anchor = anchor
	origins := slices.Clone(l.Origins)
	for _, f := range followed {
		origins = append(origins, f.Origins...)
		if f.Anchor != (Location{}) {
			origins = append(origins, Origin{f.Anchor, f.Epoch})
		}
	}
	slices.SortStableFunc(origins, func(a, b Origin) int { return cmp.Compare(b.Epoch, a.Epoch) })
	l.Origins = nil
	for _, o := range origins {
		known := slices.ContainsFunc(l.Origins, func(k Origin) bool { return k.Anchor == o.Anchor })
		if o.Anchor != anchor && !known && len(l.Origins) < mostOrigins {
			l.Origins = append(l.Origins, o)
		}
	}
	return l
}

// Unchanged is the Changed of a layout that nobody has changed since code declared the limit. Every
// change ranks above it.
const Unchanged = 1

// Outranks reports whether l is to go on, and not other, where both are known and the record does
// not say which of them followed: l has the later change or, at the same change, the later epoch.
// So a layout that a record was repaired with gives way to one with a later change.
func (l Layout) Outranks(other Layout) bool {
	return l.Epoch != other.Epoch &&
		cmp.Or(cmp.Compare(l.changed(), other.changed()), cmp.Compare(l.Epoch, other.Epoch)) > 0
}

// changed is Changed, where 0 stands for Epoch.
func (l Layout) changed() int64 { return cmp.Or(l.Changed, l.Epoch) }

// Follows reports whether l is known to take other into account, because both have the same anchor,
// or l had it when other was in force.
func (l Layout) Follows(other Layout) bool {
	return other.Epoch <= l.Epoch && (other.Anchor == l.Anchor ||
		slices.ContainsFunc(l.Origins,
			func(o Origin) bool { return o.Anchor == other.Anchor && o.Epoch >= other.Epoch }))
}
