package demo

import "time"

// speeds turns running totals, sampled now and then, into permits per second
// over the last stretch of time.
type speeds struct {
	over    time.Duration
	slack   time.Duration // by which samples may come early
	samples []sample      // oldest first
}

type sample struct {
	at     time.Duration
	totals []int64
}

// add takes a sample and returns the speeds up to it. Before there are samples
// for the whole stretch, they are over the time since the first one.
func (s *speeds) add(at time.Duration, totals []int64) []float64 {
	s.samples = append(s.samples, sample{at, totals})
	for len(s.samples) > 2 && at-s.samples[1].at >= s.over-s.slack {
		s.samples = s.samples[1:]
	}
	first := s.samples[0]
	result := make([]float64, len(totals))
	if at <= first.at {
		return result
	}
	for i := range totals {
		result[i] = float64(totals[i]-first.totals[i]) / (at - first.at).Seconds()
	}
	return result
}
