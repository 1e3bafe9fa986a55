package maxmin_test

import (
	"fmt"

	"github.com/shardlimit/shardlimit/internal/maxmin"
)

func ExampleShares() {
	parts := maxmin.Shares(nil, 120,
		[]maxmin.Claim{{Demand: 1000, Weight: 1}, {Demand: 50, Weight: 1}, {Demand: 10, Weight: 1}})
	fmt.Println(parts)
	// Output: [60 50 10]
}

func ExampleJain() {
	fmt.Println(maxmin.Jain([]float64{1, 1, 1, 1}), maxmin.Jain([]float64{1, 0, 0, 0}))
	// Output: 1 0.25
}
