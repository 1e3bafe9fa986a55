// Package history checks histories of admitted permits against promise P1: no
// interval as long as the window holds more permits than the limit.
//
// A history is what callers saw: when a call began, when its answer was there,
// and how many permits it was granted. The permits were admitted at some
// instant in between, which nobody knows. So a window is said to hold a call's
// permits only if it holds the whole call, and a verdict against a limiter is
// never a false alarm, however slow or unevenly scheduled the callers were. The
// price is that short calls prove more than long ones, and a call at least as
// long as the window proves nothing.
package history

import (
	"fmt"
	"math"
)

// Op is a call that was granted permits.
type Op struct {
	Start   int64 // ns, read from Now before the call was made
	End     int64 // ns, read from Now after it returned; not before Start
	Permits int64 // admitted; not negative
}

// check reports what is wrong with an operation, if anything is.
func (op Op) check() error {
	switch {
	case op.Start < 0:
		return fmt.Errorf("history: start %d is negative", op.Start)
	case op.End < op.Start:
		return fmt.Errorf("history: end %d lies before start %d", op.End, op.Start)
	case op.Permits < 0:
		return fmt.Errorf("history: permits %d are negative", op.Permits)
	}
	return nil
}

// Total is the sum of all permits. It panics if the sum exceeds an int64 or an
// operation is not possible: such a history was not recorded, it is a mistake of
// the test, and no verdict on it would mean anything.
func Total(ops []Op) int64 {
	var sum int64
	for _, op := range ops {
		if err := op.check(); err != nil {
			panic(err)
		}
		if op.Permits > math.MaxInt64-sum {
			panic("history: more permits than an int64 can count")
		}
		sum += op.Permits
	}
	return sum
}
