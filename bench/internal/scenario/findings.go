package scenario

import "github.com/shardlimit/shardlimit/bench/internal/report"

// findings gathers the rounds of points that are measured one at a time.
type findings struct {
	order  []finding
	rounds map[finding][]float64
}

type finding struct {
	series string
	x      float64
	metric string
}

func newFindings() *findings { return &findings{rounds: make(map[finding][]float64)} }

// add notes one round of a point.
func (f *findings) add(series string, x float64, metric string, value float64) {
	key := finding{series, x, metric}
	if _, ok := f.rounds[key]; !ok {
		f.order = append(f.order, key)
	}
	f.rounds[key] = append(f.rounds[key], value)
}

// addTo adds the points to the result in the order of their first rounds.
func (f *findings) addTo(result *report.Result) {
	for _, key := range f.order {
		result.Add(key.series, key.x, key.metric, f.rounds[key]...)
	}
}
