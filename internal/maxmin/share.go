// Package maxmin is the definition of fair parts, exact and without state: weighted max-min
// fairness. The tool, the benchmark and tests judge by it what scripts come close to.
package maxmin

import (
	"cmp"
	"math/bits"
	"slices"
)

// Claim is what one participant wants and what it weighs. Demand is in any unit, at least 0; Weight
// is relative, at least 1. What is below counts as no demand and as weight 1.
type Claim struct {
	Demand, Weight int64
}

// Shares appends to dst what each claim gets of the capacity, in whole units, by weighted max-min
// fairness (progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2): nobody gets
// more than its demand, nothing is left while somebody wants more, and everybody has its part to
// within a unit. Units that are left over go, one each, to the claims that want least for their
// weight among those that want more. The sums of demands and of weights must not overflow.
// O(n log n).
func Shares(dst []int64, capacity int64, claims []Claim) []int64 {
	sorted := byLevel(claims)
	left := max(capacity, 0)
	num, den, held := waterLevel(left, sorted)
	from := len(dst)
	dst = slices.Grow(dst, len(claims))[:from+len(claims)]
	for i, c := range sorted {
		share := c.demand
		if i >= held {
			high, low := bits.Mul64(uint64(num), uint64(c.weight))
			part, _ := bits.Div64(high, low, uint64(den)) // at most num, since no weight is above their sum
			share = min(share, int64(part))
		}
		dst[from+c.index], left = share, left-share
	}
	for _, c := range sorted[held:] { // less is left than there are of these
		if left > 0 && dst[from+c.index] < c.demand {
			dst[from+c.index]++
			left--
		}
	}
	return dst
}

// ranked is a claim and its place in the caller's order.
type ranked struct {
	demand, weight int64
	index          int
}

// byLevel sorts claims by the level at which they are satisfied.
func byLevel(claims []Claim) []ranked {
	sorted := make([]ranked, len(claims))
	for i, c := range claims {
		sorted[i] = ranked{demand: max(c.Demand, 0), weight: max(c.Weight, 1), index: i}
	}
	slices.SortFunc(sorted, func(a, b ranked) int {
		return cmp.Or(compareRatios(a.demand, a.weight, b.demand, b.weight), cmp.Compare(a.weight, b.weight))
	})
	return sorted
}

// waterLevel returns the level and how many of the sorted claims lie at or below it.
func waterLevel(capacity int64, sorted []ranked) (num, den int64, satisfied int) {
	for _, c := range sorted {
		den += c.weight
	}
	num = capacity
	for i, c := range sorted {
		// c lies above the level num/den: so do all that follow.
		if compareRatios(c.demand, c.weight, num, den) > 0 {
			return num, den, i
		}
		num -= c.demand
		den -= c.weight
	}
	return num, 0, len(sorted)
}

// compareRatios compares a/b with c/d; none is negative, b and d are not 0.
func compareRatios(a, b, c, d int64) int {
	leftHigh, leftLow := bits.Mul64(uint64(a), uint64(d))
	rightHigh, rightLow := bits.Mul64(uint64(c), uint64(b))
	return cmp.Or(cmp.Compare(leftHigh, rightHigh), cmp.Compare(leftLow, rightLow))
}

// Jain returns Jain's fairness index of what participants got relative to what they were entitled
// to: from 1/n (one has everything) to 1 (all have the same). It is 1 for no participants, and
// where nobody got anything. (Jain, Chiu, Hawe: A Quantitative Measure of Fairness,
// DEC-TR-301, 1984.)
func Jain(parts []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range parts {
		sum += x
		squares += float64(x * x)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(parts)) * squares)
}
