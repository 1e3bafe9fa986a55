package shardlimit

import (
	"sync"
	"testing"
)

// What was added is there, also what was added before the tally was divided and
// while it was, and the sum does not fall meanwhile.
func TestATallyMissesNothing(t *testing.T) {
	const adders, each = 4, 30_000
	for range 2 {
		var sum tally
		var all sync.WaitGroup
		for range adders {
			all.Go(func() {
				last := int64(0)
				for i := range each {
					if i == each/2 {
						sum.divide()
					}
					sum.add(1)
					now := sum.sum()
					if now <= last {
						t.Errorf("the sum was %d, then %d", last, now)
						return
					}
					last = now
				}
			})
		}
		all.Wait()
		if got := sum.sum(); got != adders*each {
			t.Fatalf("the sum is %d, want %d", got, adders*each)
		}
	}
}

// A tally that nobody contends for stays small: there may be one for each of many thousand keys.
func TestATallyOfOneIsNotDivided(t *testing.T) {
	var sum tally
	for range 1000 {
		sum.add(2)
	}
	if sum.stripes.Load() != nil || sum.sum() != 2000 {
		t.Errorf("divided: %v, the sum is %d", sum.stripes.Load() != nil, sum.sum())
	}
}
