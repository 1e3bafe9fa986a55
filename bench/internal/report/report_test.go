package report

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
)

func sample() *Result {
	r := &Result{
		Scenario: "sample",
		Title:    "a title",
		Question: "A question.",
		Command:  "go -C bench run . sample",
		Began:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Took:     "2s",
		Machine:  Machine{CPU: "a CPU", Cores: 2, Memory: "1 kB", System: "linux/amd64", Load: "0.00"},
		Software: []Pair{{"Go", "1.26"}, {"redis-server", "7.0.15"}},
		Settings: []Pair{{"Rounds", "3"}},
		Views: []View{
			{Metric: "rate", Title: "Rate", Unit: "1/s", X: "goroutines", LogX: true, LogY: true,
				Keep: true},
			{Metric: "latency", Title: "Latency", Unit: "µs", X: "percentile", Nominal: true},
			{Metric: "calls", Title: "Calls", Unit: "calls", X: "goroutines"},
		},
	}
	r.Add("ours", 64, "rate", 1_234_567, 1_000_000, 2_000_000)
	r.Add("ours", 1, "rate", 20_000)
	r.Add("theirs", 64, "rate", 150, 90, 155)
	r.Add("ours", 50, "latency", 1.23)
	r.Add("ours", 99.9, "latency", 45.6)
	r.Add("ours", 1, "calls", 0.0123)
	r.Remark("theirs failed %d calls", 3)
	return r
}

// TestWhatDisturbedIsSaid: in the pictures, and in what pages say of the run.
func TestWhatDisturbedIsSaid(t *testing.T) {
	if r := sample(); r.Disturbed() != "" || strings.Contains(r.run(false), "🔴") {
		t.Error("a quiet run is called disturbed")
	}
	for want, change := range map[string]func(*Result){
		"load averages 0.90 0.10 0.10": func(r *Result) { r.Machine.Load = "0.90 0.10 0.10" },
		"stolen":                       func(r *Result) { r.Noise = &quiet.Noise{Known: true, Steal: 30} },
	} {
		r := sample()
		change(r)
		svg, err := r.drawView(r.Views[0])
		if text := r.run(false); err != nil || !strings.Contains(text, "🔴") || !strings.Contains(text, want) ||
			!strings.Contains(r.run(true), "🔴") || !strings.Contains(string(svg), `class="warning"`) {
			t.Errorf("%s: it is not said: %v", want, err)
		}
		if r.Timeless = true; r.Disturbed() != "" {
			t.Errorf("%s: figures that no machine changes are called disturbed", want)
		}
	}
}
