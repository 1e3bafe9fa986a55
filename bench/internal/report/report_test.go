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
			{Metric: "rate", Title: "Rate", Unit: "1/s", X: "goroutines", Plot: true, LogX: true, LogY: true,
				Keep: true},
			{Metric: "latency", Title: "Latency", Unit: "µs", X: "percentile", Plot: true, Nominal: true},
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

func TestTable(t *testing.T) {
	r := sample()
	const want = `| goroutines | 1 | 64 |
|---|--:|--:|
| ours | 20 000 | 1 230 000 (1 000 000 to 2 000 000) |
| theirs |  | 150 (90.0 to 155) |
`
	if got := r.table(r.Views[0]); got != want {
		t.Errorf("table:\n%swant:\n%s", got, want)
	}
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
	files, err := r.Write(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Fatalf("files %v, want JSON and two plots", files)
	}
	back, err := Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&back, r) {
		t.Errorf("read back %+v\nwant %+v", &back, r)
	}
	for _, file := range files[1:] {
		checkSVG(t, file, "ours")
	}
	if kept, err := r.Draw(t.TempDir(), false); err != nil || len(kept) != 1 ||
		filepath.Base(kept[0]) != "sample-rate.svg" {
		t.Errorf("kept %v, err %v; want the picture that a document shows", kept, err)
	}
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

// TestDocument names files as the program does: the folder is bench, the
// results are below it and the document beside it.
func TestDocument(t *testing.T) {
	r, dir := sample(), t.TempDir()
	for _, folder := range []string{"bench", "docs"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "bench"))
	const results = "results"
	if _, err := r.Write(results, false); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "docs", "benchmarks.md")
	if err := Document(file, results, []string{"missing", "sample"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Benchmarks", "## sample: a title", "A question.", "![Rate](../bench/results/sample-rate.svg)",
		"| theirs |  | 150 (90.0 to 155) |", "- theirs failed 3 calls",
		"| Machine | a CPU, 2 cores, 1 kB, linux/amd64 |",
		"`go -C bench run . sample`", "Go 1.26, redis-server 7.0.15", "[sample.json](../bench/results/sample.json)",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the document lacks %q:\n%s", want, content)
		}
	}
}

func TestDocumentRefusesSmoke(t *testing.T) {
	r, dir := sample(), t.TempDir()
	r.Smoke = true
	if _, err := r.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	if err := Document(filepath.Join(dir, "x.md"), dir, []string{"sample"}); err == nil {
		t.Error("a smoke run got into the document")
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

func TestCases(t *testing.T) {
	r := &Result{}
	v := View{Metric: "jain", X: "case", Nominal: true, Cases: []string{"equal", "hog"}}
	r.Add("ours", 0, "jain", 1)
	r.Add("ours", 1, "jain", 0.5)
	r.Add("ours", 7, "jain", 2) // has no name
	const want = `| case | equal | hog | 7 |
|---|--:|--:|--:|
| ours | 1.00 | 0.500 | 2.00 |
`
	if got := r.table(v); got != want {
		t.Errorf("table:\n%swant:\n%s", got, want)
	}
}

func TestViewsOfNothingAreLeftOut(t *testing.T) {
	r := sample()
	r.Views = append(r.Views, View{Metric: "none", Title: "Nothing to see", Plot: true})
	if files, err := r.Write(t.TempDir(), true); err != nil || len(files) != 3 {
		t.Errorf("files %v, err %v; want JSON and two plots", files, err)
	}
	if text := r.section("x"); strings.Contains(text, "Nothing to see") {
		t.Error("the document shows a table of nothing")
	}
}

func TestChart(t *testing.T) {
	r := &Result{Scenario: "sample", Charts: []Chart{{
		Name: "course", Title: "A course", X: "windows", Unit: "of its part", Step: 0.5, LogY: true, Floor: 0.1,
		Ceiling: 50,
		Lines:   []Line{{"small", []float64{1, 0.9}}, {"hog", []float64{0, 20}}, {"small", []float64{0.5, 0.8}}},
	}}}
	files, err := r.Write(t.TempDir(), true)
	if err != nil || len(files) != 2 || filepath.Base(files[1]) != "sample-course.svg" {
		t.Fatalf("files %v, err %v; want JSON and a chart", files, err)
	}
	checkSVG(t, files[1], "hog")
	svg, err := os.ReadFile(files[1])
	if err != nil || strings.Count(string(svg), ">small<") != 1 {
		t.Errorf("a group has more or less than one entry in the legend, err %v", err)
	}
	r.Charts[0].Keep = true
	if text := r.section("results"); !strings.Contains(text, "(results/sample-course.svg)") {
		t.Errorf("the document does not show the chart:\n%s", text)
	}
	if _, err := r.drawChart(Chart{Name: "empty"}); err == nil {
		t.Error("no error without lines")
	}
}

// TestWhatDisturbedIsSaid: beside the figures, in the pictures and in the facts of the run.
func TestWhatDisturbedIsSaid(t *testing.T) {
	r := sample()
	if r.Disturbed() != "" || strings.Contains(r.section("x"), "CAUTION") {
		t.Error("a quiet run is called disturbed")
	}
	for want, change := range map[string]func(*Result){
		"load averages 0.90 0.10 0.10": func(r *Result) { r.Machine.Load = "0.90 0.10 0.10" },
		"stolen":                       func(r *Result) { r.Noise = &quiet.Noise{Known: true, Steal: 30} },
	} {
		r := sample()
		change(r)
		svg, err := r.drawView(r.Views[0])
		if text := r.section("x"); err != nil || !strings.Contains(text, "[!CAUTION]") ||
			!strings.Contains(text, want) ||
			!strings.Contains(string(svg), `class="warning"`) {
			t.Errorf("%s: it is not said: %v", want, err)
		}
		if r.Timeless = true; r.Disturbed() != "" {
			t.Errorf("%s: figures that no machine changes are called disturbed", want)
		}
	}
	if text := r.provenance("x"); !strings.Contains(text, "| Others meanwhile | not measured |") {
		t.Errorf("nothing is said of others:\n%s", text)
	}
}
