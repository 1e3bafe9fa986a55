package report

import (
	"os"
	"path/filepath"
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

func TestExcerpts(t *testing.T) {
	dir := t.TempDir()
	if _, err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "README.md")
	const missing = "<!-- bench missing rate: 1: ours -->\nkept\n<!-- /bench -->\n"
	update := func(text string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Excerpts(file, dir)
		fresh, _ := os.ReadFile(file)
		return string(fresh), err
	}
	const marker = "before\n<!-- bench sample rate: 1, 64: ours -->\n"
	got, err := update(marker + "old\n<!-- /bench -->\nafter\n" + missing)
	const table = `| rate, by goroutines | 1 | 64 |
|---|--:|--:|
| ours | 20 000 | 1 230 000 |
`
	if want := marker + table + "<!-- /bench -->\nafter\n" + missing; err != nil || got != want {
		t.Errorf("err %v, got\n%s\nwant\n%s", err, got, want)
	}
	if again, err := update(got); err != nil || again != got {
		t.Errorf("err %v, a second time it differs:\n%s", err, again)
	}
	for marker, want := range map[string]string{
		"a <!-- bench sample rate: 64: ours -->x<!-- /bench --> b":           "1,230,000",
		"a <!-- bench sample\nrate: 64: ours / theirs -->x<!-- /bench --> b": "8230",
		"<!-- bench sample rate: 1; 64: ours -->\n<!-- /bench -->":           "\n| rate, by goroutines | 1 | 64 |\n",
		"<!-- bench sample run -->\nold\n<!-- /bench -->": "\n`go -C bench run . sample`,\n2 " +
			"January 2026, 2 cores\n",
		"<!-- bench sample rate: 64: ours -->x<!--\n/bench -->":     "1,230,000<!--\n",
		"<!-- bench sample run -->x<!-- /bench -->":                 "2 January 2026, 2 cores (a CPU)<",
		"<!-- bench sample\nlatency:\n50: ours -->x<!-- /bench -->": "1.23",

		"<!-- bench sample rate: least of all: ours -->x<!-- /bench -->": "20,000",
		"<!-- bench sample rate: most of all: ours -->x<!-- /bench -->":  "1,230,000",
	} {
		if got, err := update(marker); err != nil || !strings.Contains(got, " -->"+want) ||
			strings.Contains(got, "x<") {
			t.Errorf("%s: err %v, got\n%s", marker, err, got)
		}
	}
	for what, marker := range map[string]string{
		"metric": "<!-- bench sample nothing: 1: ours -->", "x": "<!-- bench sample rate: 2: ours -->",
		"series":          "<!-- bench sample rate: 1: nobody -->",
		"series at all x": "<!-- bench sample rate: most of all: nobody -->",
		"x of a ratio":    "<!-- bench sample rate: 1: ours / theirs -->",
	} {
		for _, text := range []string{marker + "old<!-- /bench -->\n", marker + "\nold\n<!-- /bench -->\n"} {
			if got, err := update(text); err == nil || got != text || !strings.Contains(err.Error(), "sample") {
				t.Errorf("unknown %s: err %v, got\n%s", what, err, got)
			}
		}
	}
}
