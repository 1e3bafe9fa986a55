package history

import (
	"slices"
	"sync"
)

// Recorder collects the operations of many goroutines. The zero value is ready;
// the methods may be called concurrently.
type Recorder struct {
	mu      sync.Mutex
	tallies []*Tally
}

// Tally returns a new part of the record, meant for one goroutine, so that
// recording contends with nobody.
func (r *Recorder) Tally() *Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &Tally{}
	r.tallies = append(r.tallies, t)
	return t
}

// Ops returns a copy of all that has been recorded so far, in no order.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Op
	for _, t := range r.tallies {
		t.mu.Lock()
		all = append(slices.Grow(all, len(t.ops)), t.ops...)
		t.mu.Unlock()
	}
	return all
}

// Tally is one goroutine's part of a Recorder. Add may be called concurrently
// all the same; it is only slower then.
type Tally struct {
	mu  sync.Mutex // of one goroutine, hence free nearly always
	ops []Op
	_   [32]byte // with the above, a cache line: neighbours do not disturb
}

// Add records a call that began at start, returned at end (both as read from
// Now) and was granted permits. 0 permits are not recorded. It panics if end
// lies before start or permits are negative.
func (t *Tally) Add(start, end, permits int64) {
	op := Op{Start: start, End: end, Permits: permits}
	if err := op.check(); err != nil {
		panic(err)
	}
	if permits == 0 {
		return
	}
	t.mu.Lock()
	t.ops = append(t.ops, op)
	t.mu.Unlock()
}
