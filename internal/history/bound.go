package history

import (
	"cmp"
	"slices"
	"time"
)

// CheckBy is like Check for a limit that differs from time to time: bound says how many permits the
// window that begins at an instant may hold. The window returned is the one that holds the most more
// than it may, and excess is by how much; 0 if all keep to it.
func CheckBy(window time.Duration, bound func(start int64) int64, ops []Op) (worst Window, excess int64) {
	byStart := fitting(window, ops)
	byEnd := slices.Clone(byStart)
	slices.SortFunc(byStart, func(a, b Op) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(byEnd, func(a, b Op) int { return cmp.Compare(a.End, b.End) })
	// Some window with the most permits begins at the start of a call: shifted later until it does so
	// it loses none of the calls inside.
	worst.Width = window
	var inside int64
	entered := 0 // of byEnd
	for _, op := range byStart {
		for entered < len(byEnd) && byEnd[entered].End-op.Start < int64(window) {
			inside += byEnd[entered].Permits
			entered++
		}
		if most := bound(op.Start); inside-most > excess {
			worst.Start, worst.Permits, excess = op.Start, inside, inside-most
		}
		inside -= op.Permits
	}
	return worst, excess
}
