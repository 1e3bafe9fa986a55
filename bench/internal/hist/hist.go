// Package hist counts durations in buckets of about 3 % width, so that latencies
// of many processes can be added up and asked for their percentiles.
package hist

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	fine    = 5         // bits of a duration that are kept below its highest one
	linear  = 1 << fine // below this many nanoseconds buckets are exact
	buckets = (64 - fine) << fine
)

// Hist counts durations. The zero value is empty. It may be used by any number of
// goroutines; what is read while others add is a little of both.
type Hist struct {
	counts [buckets]atomic.Int64
}

// Add counts n durations of d; negative ones count as 0.
func (h *Hist) Add(d time.Duration, n int64) { h.counts[bucket(d)].Add(n) }

// bucket is the place of a duration: its highest bit and the fine bits below it.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < linear {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - fine
	return shift<<fine + int(v>>shift)
}

// middle is the duration in the middle of a bucket.
func middle(i int) time.Duration {
	if i < 2*linear {
		return time.Duration(i)
	}
	shift := i>>fine - 1
	low := uint64(i-shift<<fine) << shift
	return time.Duration(low + 1<<shift/2)
}

// Count is how many durations were added.
func (h *Hist) Count() (n int64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Quantile is the duration that the part q (0 to 1) of all durations does not
// exceed, within 3 %; 0 if there are none.
func (h *Hist) Quantile(q float64) time.Duration {
	count := h.Count()
	if count == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(count))), 1)
	for i := range h.counts {
		if rank -= h.counts[i].Load(); rank <= 0 {
			return middle(i)
		}
	}
	return middle(buckets - 1)
}

// Snapshot is what was counted, by bucket; buckets without any are left out.
func (h *Hist) Snapshot() map[int]int64 {
	s := make(map[int]int64)
	for i := range h.counts {
		if n := h.counts[i].Load(); n != 0 {
			s[i] = n
		}
	}
	return s
}

// Merge adds what another histogram counted. Buckets that do not exist are ignored.
func (h *Hist) Merge(s map[int]int64) {
	for i, n := range s {
		if i >= 0 && i < buckets {
			h.counts[i].Add(n)
		}
	}
}

// Reset forgets everything.
func (h *Hist) Reset() {
	for i := range h.counts {
		h.counts[i].Store(0)
	}
}
