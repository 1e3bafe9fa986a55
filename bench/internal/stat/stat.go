// Package stat condenses repeated measurements. Rounds are few (3 to 9) and
// disturbed by whatever else the machine does, so the median stands for them
// and their extremes are always shown beside it.
package stat

import (
	"math"
	"slices"
)

// Stat is one quantity measured in several rounds.
type Stat struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds"` // in the order they were run
}

// Of condenses rounds, which it keeps. Without rounds everything is 0.
func Of(rounds ...float64) Stat {
	if len(rounds) == 0 {
		return Stat{}
	}
	sorted := slices.Sorted(slices.Values(rounds))
	return Stat{
		Median: Quantile(sorted, 0.5),
		Min:    sorted[0],
		Max:    sorted[len(sorted)-1],
		Rounds: rounds,
	}
}

// Spread is how far the extremes lie apart, as a fraction of the median; 0 if
// the median is 0.
func (s Stat) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / math.Abs(s.Median)
}

type number interface{ ~int64 | ~float64 }

// Quantile is the value below which the fraction q (0 to 1) of the sorted
// values lies, interpolated linearly between neighbours; 0 without values.
func Quantile[T number](sorted []T, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	low := float64(sorted[i])
	if i+1 == len(sorted) {
		return low
	}
	return low + (at-float64(i))*(float64(sorted[i+1])-low)
}
