package history

import (
	"fmt"
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
