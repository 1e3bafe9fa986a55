package fairness_test

import (
	"fmt"

	"github.com/shardlimit/shardlimit/fairness"
)

func ExampleShares() {
	parts := fairness.Shares(nil, 120,
		[]fairness.Claim{{Demand: 1000, Weight: 1}, {Demand: 50, Weight: 1}, {Demand: 10, Weight: 1}})
	fmt.Println(parts)
	// Output: [60 50 10]
}

func ExampleJain() {
	fmt.Println(fairness.Jain([]float64{1, 1, 1, 1}), fairness.Jain([]float64{1, 0, 0, 0}))
	// Output: 1 0.25
}
