package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestSizeRivalIsBounded(t *testing.T) {
	r := &sizeRival{most: 100_000}
	for _, permits := range []int64{100, 1000} {
		if r.bounded(permits) {
			t.Errorf("not measured with %d permits", permits)
		}
		r.took(permits, sizeBound)
	}
	r.took(1000, sizeBound+time.Millisecond)
	r.took(1000, 3*sizeBound) // the next round
	if !r.bounded(10_000) || r.bounded(1000) || r.last != 1000 || !strings.Contains(r.why, "51ms") {
		t.Errorf("after a slow call: %+v", r)
	}
	quick := &sizeRival{most: 100_000}
	if quick.bounded(100_000) || !quick.bounded(1_000_000) || quick.last != 100_000 || quick.why == "" {
		t.Errorf("too large to be filled: %+v", quick)
	}
}
