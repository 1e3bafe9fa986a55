package lane

import "testing"

// A queue in which something always waits takes no more room than what waits.
func TestAQueueThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	l := grounded(t)
	o := &outbox{env: l.env, part: whole, flying: maxFlights} // all flights are under way
	o.add(l)
	for range 100_000 {
		o.add(l)
		if o.pop() == nil {
			t.Fatal("empty")
		}
	}
	if len(o.waiting)-o.gone != 1 || cap(o.waiting) > 64 {
		t.Errorf("%d wait, with room for %d", len(o.waiting)-o.gone, cap(o.waiting))
	}
}
