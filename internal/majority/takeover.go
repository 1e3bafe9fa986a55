package majority

import "time"

// GivenUp is after how long nothing that a node granted matters any more that was put out, counted
// from when the generation that put it out was chosen. For so long after a read began, a process
// relies on what it found; lasts is how long a grant may matter, with leases and bookings: 0 tells
// when the node grants nothing more. From then on what its shards had counts as given up, and may
// be raised elsewhere.
//
// By one clock a time may take 1 % longer than by another, and it is rounded up to the microseconds
// of the nodes' clocks.
func GivenUp(confirm, lasts time.Duration) time.Duration {
	d := confirm + lasts
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
