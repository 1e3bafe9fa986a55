package report

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
)

func sample() *Result {
	r := &Result{Machine: Machine{Cores: 2, Load: "0.00"},
		Views: []View{{Metric: "rate", Title: "Rate", Unit: "1/s", X: "goroutines"}}}
	r.Add("ours", 64, "rate", 1_234_567, 1_000_000, 2_000_000)
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
