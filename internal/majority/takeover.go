package majority

import (
	"errors"
	"fmt"
	"time"
)

// maxTerm is the longest of the times that make a term.
const maxTerm = 366 * 24 * time.Hour

// ErrTerms: a time of Terms is below 0 or too long.
var ErrTerms = errors.New("invalid terms")

// Terms are the times after which a node that was put out matters no more. All of them are counted
// from when the generation that put it out was chosen.
type Terms struct {
	Confirm time.Duration // for so long after a read began, a process relies on it
	Window  time.Duration // of the limit, the longest that was in force on the node
	Lease   time.Duration // the longest lease
	Booked  time.Duration // how far ahead permits may be dated: at most two windows
}

// Fenced is after how long the node grants nothing more.
func (t Terms) Fenced() (time.Duration, error) {
	if err := t.validate(); err != nil {
		return 0, err
	}
	return drifted(t.Confirm), nil
}

// GivenUp is after how long nothing that the node granted is in a window any more. From then on
// what its shards had counts as given up, and may be raised elsewhere.
func (t Terms) GivenUp() (time.Duration, error) {
	if err := t.validate(); err != nil {
		return 0, err
	}
	return drifted(t.Confirm + t.Window + t.Lease + t.Booked), nil
}

func (t Terms) validate() error {
	for _, d := range []time.Duration{t.Confirm, t.Window, t.Lease, t.Booked} {
		if d < 0 || d > maxTerm {
			return fmt.Errorf("%w: %v", ErrTerms, d)
		}
	}
	if t.Window == 0 || t.Confirm == 0 || t.Booked > 2*t.Window {
		return fmt.Errorf("%w: window %v, relied on for %v, booked %v ahead", ErrTerms, t.Window, t.Confirm, t.Booked)
	}
	return nil
}

// drifted is how long a time may take by one clock that was measured with another: 1 % longer, and
// rounded up to the microseconds of the nodes' clocks.
func drifted(d time.Duration) time.Duration {
	d += (d + 99) / 100
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// Belief is a generation that a process has confirmed.
type Belief struct {
	Generation int64
	Began      time.Duration // when that read began, on the process's clock that goes on in suspension
}

// Left is for how long the process may still rely on the belief, 0 if it may not, or not for this
// generation.
func (b Belief) Left(generation int64, now, confirm time.Duration) time.Duration {
	if b.Generation == 0 || b.Generation != generation || now < b.Began {
		return 0
	}
	return max(b.Began+confirm-now, 0)
}

// Deadline is the time of a node, in microseconds, up to which it may serve a call: what its clock
// said in an earlier reply, and what was left of the belief when that reply was received. So the
// way of the reply makes it earlier, never later. 0: no call may be sent.
func Deadline(said int64, left time.Duration) int64 {
	if left < time.Microsecond {
		return 0
	}
	return said + left.Microseconds()
}
