package parts

import (
	"cmp"
	"slices"
)

// Entitled divides a capacity by weighted max-min: nobody gets more than it
// demands, what is left over goes to the others in proportion to their weights,
// and so on until all is given away or nobody wants more. Weights are positive.
func Entitled(weights, demands []float64, capacity float64) []float64 {
	order := make([]int, len(demands))
	var weight float64 // of those that are still to be served
	for i := range order {
		order[i] = i
		weight += weights[i]
	}
	// Whoever wants least for its weight is satisfied first.
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(demands[a]/weights[a], demands[b]/weights[b]) })
	part := make([]float64, len(demands))
	for _, i := range order {
		part[i] = min(demands[i], capacity*weights[i]/weight)
		capacity -= part[i]
		weight -= weights[i]
	}
	return part
}

// Jain is Jain's index of fairness: 1 if all are equal, 1/n if one of n has
// everything. Of nothing it is 1.
func Jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / float64(len(xs)) / squares
}
