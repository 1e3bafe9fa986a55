package parts

import (
	"math"

	"github.com/shardlimit/shardlimit/fairness"
)

// fine is how many units a permit is divided into: entitlements are not whole, and
// a permit is some per cent of what a small participant gets in a window.
const fine = 1000

// Entitled divides a capacity by weighted max-min, as package fairness does, to a
// thousandth of a permit.
func Entitled(weights, demands []float64, capacity float64) []float64 {
	claims := make([]fairness.Claim, len(demands))
	for i := range claims {
		claims[i] = fairness.Claim{Demand: units(demands[i]), Weight: units(weights[i])}
	}
	entitled := make([]float64, len(demands))
	for i, share := range fairness.Shares(nil, units(capacity), claims) {
		entitled[i] = float64(share) / fine
	}
	return entitled
}

func units(x float64) int64 { return int64(math.Round(fine * x)) }
