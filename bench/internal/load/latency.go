package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	histograms   = 16               // kept apart, so that workers hardly contend
	shortestTime = int64(100)       // ns; shorter ones count as this
	longestTime  = int64(time.Hour) // ns; longer ones count as this
)

// Latencies collects times from many goroutines.
type Latencies struct {
	parts [histograms]struct {
		mu sync.Mutex
		h  *hdrhistogram.Histogram
		_  [40]byte // a cache line each
	}
}

// NewLatencies returns an empty collection, exact to three digits.
func NewLatencies() *Latencies {
	l := &Latencies{}
	for i := range l.parts {
		l.parts[i].h = hdrhistogram.New(shortestTime, longestTime, 3)
	}
	return l
}

// Add adds a time that worker measured.
func (l *Latencies) Add(worker int, d time.Duration) {
	part := &l.parts[worker%histograms]
	part.mu.Lock()
	defer part.mu.Unlock()
	_ = part.h.RecordValue(min(max(int64(d), shortestTime), longestTime)) // fails outside of these bounds only
}

// Percentile returns the time below which so many per cent (0 to 100) of all lie.
func (l *Latencies) Percentile(percent float64) time.Duration {
	all := hdrhistogram.New(shortestTime, longestTime, 3)
	for i := range l.parts {
		l.parts[i].mu.Lock()
		all.Merge(l.parts[i].h)
		l.parts[i].mu.Unlock()
	}
	return time.Duration(all.ValueAtQuantile(percent))
}
