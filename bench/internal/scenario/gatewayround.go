package scenario

import (
	"errors"
	"maps"
	"slices"

	"github.com/shardlimit/shardlimit/bench/internal/gateway"
)

// gatewayAt is a variant in a column.
type gatewayAt struct {
	variant string
	column  int
}

// gatewayRound is what was found in one round, by metric.
type gatewayRound map[gatewayAt]map[string]float64

// note returns a function that keeps what a variant did in a column. One that answered nothing is
// left out.
func (r gatewayRound) note(variant string, column int) func(map[string]float64, error) error {
	return func(figures map[string]float64, err error) error {
		if errors.Is(err, errIdle) {
			return nil
		}
		if err == nil {
			r[gatewayAt{variant, column}] = figures
		}
		return err
	}
}

// compare adds the figures that need another variant in the same column.
func (r gatewayRound) compare() {
	for at, figures := range r {
		none, known := r[gatewayAt{gateway.None, at.column}]
		if known && at.variant != gateway.None {
			figures["extra"] = figures["cpu"] - none["cpu"]
		}
		bare, known := r[gatewayAt{gateway.Bare, at.column}]
		if known && bare["p99"] > 0 {
			figures["p99-ratio"] = figures["p99"] / bare["p99"]
		}
	}
}

// addTo notes all in the order in which variants are listed.
func (r gatewayRound) addTo(found *findings) {
	order := append(slices.Clone(gatewayAllowed), gateway.Refuse)
	keys := slices.SortedFunc(maps.Keys(r), func(a, b gatewayAt) int {
		if a.variant != b.variant {
			return slices.Index(order, a.variant) - slices.Index(order, b.variant)
		}
		return a.column - b.column
	})
	for _, at := range keys {
		for _, metric := range slices.Sorted(maps.Keys(r[at])) {
			found.add(at.variant, float64(at.column), metric, r[at][metric])
		}
	}
}
