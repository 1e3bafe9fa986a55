package striped

import (
	"sync"
	"testing"
)

// What was added is there, also what was added before the tally was divided and
// while it was, and the sum does not fall meanwhile.
func TestATallyMissesNothing(t *testing.T) {
	const adders, each = 4, 30_000
	for range 2 {
		var sum Tally
		var all sync.WaitGroup
		for range adders {
			all.Go(func() {
				last := int64(0)
				for i := range each {
					if i == each/2 {
						sum.divide()
					}
					sum.Add(1)
					now := sum.Sum()
					if now <= last {
						t.Errorf("the sum was %d, then %d", last, now)
						return
					}
					last = now
				}
			})
		}
		all.Wait()
		if got := sum.Sum(); got != adders*each {
			t.Fatalf("the sum is %d, want %d", got, adders*each)
		}
	}
}

// A tally that nobody contends for stays small: there may be one for each of many thousand keys.
func TestATallyOfOneIsNotDivided(t *testing.T) {
	var sum Tally
	for range 1000 {
		sum.Add(2)
	}
	if sum.stripes.Load() != nil || sum.Sum() != 2000 {
		t.Errorf("divided: %v, the sum is %d", sum.stripes.Load() != nil, sum.Sum())
	}
}
