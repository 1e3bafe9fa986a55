package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Window is a half-open interval of time, from Start (included) to Start+Width
// (excluded), and the permits of the calls that lie wholly inside: those with
// Start <= start and end < Start+Width.
type Window struct {
	Start   int64 // ns, as read from Now
	Width   time.Duration
	Permits int64
}

// String is for verdicts.
func (w Window) String() string {
	return fmt.Sprintf("%d permits in the %v from %v on", w.Permits, w.Width, time.Duration(w.Start))
}

// Check looks for a violation of limit permits per window and returns the window
// with the most permits, and whether it keeps to the limit. See Busiest for the
// arguments.
func Check(window time.Duration, limit int64, ops []Op) (worst Window, ok bool) {
	worst = Busiest(window, ops)
	return worst, worst.Permits <= limit
}

// Busiest returns the window of the given length with the most permits wholly
// inside, of several the earliest; without any permits, one with Permits 0. The
// operations may be in any order and are not changed. It takes O(n log n). It
// panics if window is not positive or for ops that Total panics for.
func Busiest(window time.Duration, ops []Op) Window {
	if window <= 0 {
		panic(fmt.Sprintf("history: window %v is not positive", window))
	}
	Total(ops) // panics if it must; the sums cannot overflow then
	worst, _ := CheckBy(window, func(int64) int64 { return 0 }, ops)
	return worst
}

// fitting returns the operations that fit into some window.
func fitting(window time.Duration, ops []Op) []Op {
	fit := make([]Op, 0, len(ops))
	for _, op := range ops {
		if op.End-op.Start < int64(window) {
			fit = append(fit, op)
		}
	}
	return fit
}

// CheckBy is like Check for a limit that differs from time to time: bound says how many permits the
// window that begins at an instant may hold. The window returned is the one that holds the most
// more than it may, and excess is by how much; 0 if all keep to it.
func CheckBy(window time.Duration, bound func(start int64) int64, ops []Op) (worst Window, excess int64) {
	byStart := fitting(window, ops)
	byEnd := slices.Clone(byStart)
	slices.SortFunc(byStart, func(a, b Op) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(byEnd, func(a, b Op) int { return cmp.Compare(a.End, b.End) })
	// Some window with the most permits begins at the start of a call: shifted later until it does
	// so it loses none of the calls inside.
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
