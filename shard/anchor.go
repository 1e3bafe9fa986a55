package shard

import (
	"cmp"
	"slices"
)

// mostOrigins is how many anchors that it had before a layout remembers.
const mostOrigins = 8

// Origin is a place at which the record of a limit was anchored before, and the last epoch from there that a layout takes into account.
type Origin struct {
	Anchor Location
	Epoch  int64
}

// AnchoredAt returns l with its record at anchor, as the one that follows those given: it remembers where they were anchored, and what
// they remember. It remembers the newest 8 places; whoever finds a layout from one that is forgotten has to merge with it.
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

// Follows reports whether l is known to take other into account, because both have the same anchor, or l had it when other was in force.
func (l Layout) Follows(other Layout) bool {
	return other.Epoch <= l.Epoch && (other.Anchor == l.Anchor ||
		slices.ContainsFunc(l.Origins, func(o Origin) bool { return o.Anchor == other.Anchor && o.Epoch >= other.Epoch }))
}
