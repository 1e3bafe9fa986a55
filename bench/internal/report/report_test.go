package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
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

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.01234: "0.0123", 0.5: "0.500", 1.234: "1.23", 45.67: "45.7", 789.1: "789",
		1234: "1230", 12345: "12 300", 999_999: "1 000 000", -45.67: "-45.7", -12345: "-12 300", math.Inf(1): "+Inf",
	} {
		if got := figure(x); got != want {
			t.Errorf("figure(%v) = %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{1: "1", 8192: "8192", 1e7: "10 000 000", 99.9: "99.9", -12345: "-12 345",
		-123456: "-123 456"} {
		if got := Count(x); got != want {
			t.Errorf("Count(%v) = %q, want %q", x, got, want)
		}
	}
}

func TestWriteAndRead(t *testing.T) {
	r, dir := sample(), filepath.Join(t.TempDir(), "new")
	files, err := r.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || filepath.Base(files[1]) != "sample-rate.svg" {
		t.Fatalf("files %v, want JSON and the picture that a document shows", files)
	}
	back, err := Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&back, r) {
		t.Errorf("read back %+v\nwant %+v", &back, r)
	}
	checkSVG(t, files[1], "ours")
}

// checkSVG checks that the file is XML all through and shows the text.
func checkSVG(t *testing.T, file, text string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "<svg") || !strings.Contains(string(content), text) {
		t.Errorf("%s is no SVG that shows %q", file, text)
	}
	for decoder := xml.NewDecoder(strings.NewReader(string(content))); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

func TestPlotOfNothing(t *testing.T) {
	r := sample()
	r.Points = nil
	if _, err := r.drawView(r.Views[0]); err == nil {
		t.Error("no error without points")
	}
	r.Add("ours", 1, "rate", 0) // cannot be shown on a logarithmic scale
	if _, err := r.drawView(r.Views[0]); err == nil {
		t.Error("no error with a zero on a logarithmic scale")
	}
}

func TestGoVersions(t *testing.T) {
	got := GoVersions("no.such/module")
	if len(got) != 1 || got[0].Name != "Go" || !strings.HasPrefix(got[0].Value, "1.") {
		t.Errorf("GoVersions = %v, want Go alone", got)
	}
}

func TestMachine(t *testing.T) {
	if got := memory("8388608 kB"); got != "8.0 GiB" {
		t.Errorf("memory = %q, want 8.0 GiB", got)
	}
	if got := memory("unknown"); got != "unknown" {
		t.Errorf("memory = %q, want unknown", got)
	}
	if got := loadAverages("0.10 0.20 0.30 1/99 1234"); got != "0.10 0.20 0.30" {
		t.Errorf("load averages = %q", got)
	}
}

func TestChart(t *testing.T) {
	r := &Result{Scenario: "sample", Charts: []Chart{{
		Name: "course", Title: "A course", X: "windows", Unit: "of its part", Step: 0.5, LogY: true, Floor: 0.1,
		Ceiling: 50,
		Lines:   []Line{{"small", []float64{1, 0.9}}, {"hog", []float64{0, 20}}, {"small", []float64{0.5, 0.8}}},
	}}}
	files, err := r.Write(t.TempDir())
	if err != nil || len(files) != 2 || filepath.Base(files[1]) != "sample-course.svg" {
		t.Fatalf("files %v, err %v; want JSON and a chart", files, err)
	}
	checkSVG(t, files[1], "hog")
	svg, err := os.ReadFile(files[1])
	if err != nil || strings.Count(string(svg), ">small<") != 1 {
		t.Errorf("a group has more or less than one entry in the legend, err %v", err)
	}
	if _, err := r.drawChart(Chart{Name: "empty"}); err == nil {
		t.Error("no error without lines")
	}
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
