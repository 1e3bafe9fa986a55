package scenario

import (
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/report"
)

func TestFindings(t *testing.T) {
	f := newFindings()
	f.add("b", 1, "m", 10)
	f.add("a", 1, "m", 20)
	f.add("b", 2, "m", 30)
	f.add("b", 1, "m", 11)
	f.add("b", 1, "n", 40)
	var result report.Result
	f.addTo(&result)
	want := []struct {
		series, metric string
		x              float64
		rounds         []float64
	}{{"b", "m", 1, []float64{10, 11}}, {"a", "m", 1, []float64{20}}, {"b", "m", 2, []float64{30}},
		{"b", "n", 1, []float64{40}}}
	if len(result.Points) != len(want) {
		t.Fatalf("%d points, want %d", len(result.Points), len(want))
	}
	for i, w := range want {
		p := result.Points[i]
		if p.Series != w.series || p.X != w.x || p.Metric != w.metric || !slices.Equal(p.Stat.Rounds, w.rounds) {
			t.Errorf("point %d is %+v, want %+v", i, p, w)
		}
	}
}
