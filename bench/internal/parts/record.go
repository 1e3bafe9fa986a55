// Package parts tells how fairly a limit was shared: what each participant got
// against what it was entitled to by weighted max-min of what all of them really
// asked for.
package parts

import (
	"math"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/maxmin"
)

// Record is what each participant asked for and got, counted in bins of equal
// length.
type Record struct {
	Weights     []float64
	Wanted, Got [][]float64 // by participant and bin
	PerWindow   int         // bins
	Permits     float64     // of the limit, per window
}

// NewRecord returns an empty record of so many windows.
func NewRecord(weights []float64, permits int64, perWindow, windows int) *Record {
	r := &Record{Weights: weights, PerWindow: perWindow, Permits: float64(permits)}
	for range weights {
		r.Wanted = append(r.Wanted, make([]float64, perWindow*windows))
		r.Got = append(r.Got, make([]float64, perWindow*windows))
	}
	return r
}

// Add notes calls that participant i made at one time and that were answered at
// another, both since the record begins. What lies outside is not counted.
func (r *Record) Add(i int, window, asked, answered time.Duration, wanted, got int64) {
	bins := len(r.Wanted[i])
	if bin := int(asked * time.Duration(r.PerWindow) / window); asked >= 0 && bin < bins {
		r.Wanted[i][bin] += float64(wanted)
	}
	if bin := int(answered * time.Duration(r.PerWindow) / window); answered >= 0 && bin < bins {
		r.Got[i][bin] += float64(got)
	}
}

// blockWindows is over how many windows demand is taken together: a random demand
// that comes a moment too early is no lesser claim.
const blockWindows = 2

// Least is got/entitlement over all the time of the participant with the least; those who are
// entitled to nothing are left out, and if all are it is 0.
func (r *Record) Least() float64 {
	n, bins := len(r.Weights), len(r.Wanted[0])
	entitled, got := make([]float64, n), make([]float64, n)
	for from := 0; from < bins; from += blockWindows * r.PerWindow {
		part, had := r.Between(from, min(from+blockWindows*r.PerWindow, bins))
		for i := range part {
			entitled[i] += part[i]
			got[i] += had[i]
		}
	}
	var xs []float64
	for i := range entitled {
		if entitled[i] > 0 {
			xs = append(xs, got[i]/entitled[i])
		}
	}
	if len(xs) == 0 {
		return 0
	}
	return slices.Min(xs)
}

// Between returns what each participant was entitled to in some bins, and got.
func (r *Record) Between(from, to int) (entitled, got []float64) {
	wanted := make([]float64, len(r.Weights))
	got = make([]float64, len(r.Weights))
	for i := range wanted {
		wanted[i] = total(r.Wanted[i][from:to])
		got[i] = total(r.Got[i][from:to])
	}
	return Entitled(r.Weights, wanted, r.Permits*float64(to-from)/float64(r.PerWindow)), got
}

// Course is got/entitlement of a participant in windows that begin every step
// bins; 0 where it was entitled to nothing.
func (r *Record) Course(i, step int) []float64 {
	var course []float64
	for from := 0; from+r.PerWindow <= len(r.Wanted[i]); from += step {
		entitled, got := r.Between(from, from+r.PerWindow)
		x := 0.0
		if entitled[i] > 0 {
			x = got[i] / entitled[i]
		}
		course = append(course, x)
	}
	return course
}

func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// fine is how many units a permit is divided into: entitlements are not whole, and
// a permit is some per cent of what a small participant gets in a window.
const fine = 1000

// Entitled divides a capacity by weighted max-min, as package maxmin does, to a
// thousandth of a permit.
func Entitled(weights, demands []float64, capacity float64) []float64 {
	claims := make([]maxmin.Claim, len(demands))
	for i := range claims {
		claims[i] = maxmin.Claim{Demand: units(demands[i]), Weight: units(weights[i])}
	}
	entitled := make([]float64, len(demands))
	for i, share := range maxmin.Shares(nil, units(capacity), claims) {
		entitled[i] = float64(share) / fine
	}
	return entitled
}

func units(x float64) int64 { return int64(math.Round(fine * x)) }
