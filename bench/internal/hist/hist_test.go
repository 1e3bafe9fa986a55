package hist

import (
	"math"
	"testing"
	"time"
)

func TestBucketsAreFine(t *testing.T) {
	last := -1
	for v := int64(0); v >= 0 && v < math.MaxInt64/2; v += 1 + v/100 {
		i := bucket(time.Duration(v))
		if i < last || i >= buckets {
			t.Fatalf("%d ns is in bucket %d, after %d of %d", v, i, last, buckets)
		}
		last = i
		if m := int64(middle(i)); math.Abs(float64(m-v)) > 0.0321*float64(v) {
			t.Fatalf("%d ns is shown as %d ns", v, m)
		}
	}
	if bucket(math.MaxInt64) >= buckets || bucket(-1) != 0 {
		t.Error("an extreme duration has no bucket")
	}
}

func TestQuantiles(t *testing.T) {
	var all, part Hist
	if all.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for us := range 1000 {
		part.Add(time.Duration(us+1)*time.Microsecond, 1)
	}
	all.Merge(part.Snapshot())
	all.Merge(map[int]int64{-1: 5, buckets: 5})
	all.Add(time.Second, 10)
	if all.Count() != 1010 {
		t.Errorf("%d durations, want 1010", all.Count())
	}
	for q, want := range map[float64]time.Duration{0: time.Microsecond, 0.5: 505 * time.Microsecond,
		0.9: 909 * time.Microsecond, 0.999: time.Second, 1: time.Second} {
		if got := all.Quantile(q); math.Abs(float64(got-want)) > 0.035*float64(want) {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
	all.Reset()
	if all.Count() != 0 {
		t.Error("a histogram that was reset holds something")
	}
}
