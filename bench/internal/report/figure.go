package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/shardlimit/shardlimit/bench/internal/picture"
)

// Stat is one quantity measured in several rounds. Rounds are few and disturbed by whatever else
// the machine does, so the median stands for them, with the extremes beside it.
type Stat struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds"` // in the order they were run
}

func statOf(rounds []float64) Stat {
	return Stat{Median: Median(rounds...), Min: slices.Min(rounds), Max: slices.Max(rounds), Rounds: rounds}
}

// Median is that of some values, of which there must be one.
func Median(values ...float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// figure prints a measured number with three digits that count, thousands
// grouped: 1.23, 45.6, 789, 12 300.
func figure(x float64) string {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	if digits > 0 {
		return strconv.FormatFloat(x, 'f', min(digits, 4), 64)
	}
	unit := math.Pow10(-digits)
	return picture.Group(strconv.FormatInt(int64(math.Round(x/unit)*unit), 10))
}

// Count prints a number that was chosen, in full.
func Count(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return picture.Group(strconv.FormatInt(int64(x), 10))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
