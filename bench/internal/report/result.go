// Package report keeps the results of benchmarks and shows them: raw JSON, SVG
// plots and docs/benchmarks.md. It knows no scenario; a result carries its own
// titles and units.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/stat"
)

// Result is everything one run of one scenario found.
type Result struct {
	Scenario string    `json:"scenario"`
	Title    string    `json:"title"`
	Question string    `json:"question"` // what was measured, and how to read it
	Command  string    `json:"command"`
	Smoke    bool      `json:"smoke"` // a trial of the benchmark itself; the figures mean nothing
	Began    time.Time `json:"began"`
	Took     string    `json:"took"`
	Machine  Machine   `json:"machine"`
	Software []Pair    `json:"software"` // names and versions
	Settings []Pair    `json:"settings"`
	Views    []View    `json:"views"`
	Points   []Point   `json:"points"`
	Charts   []Chart   `json:"charts,omitempty"`
	Remarks  []string  `json:"remarks,omitempty"` // what went wrong or needs saying
}

// Pair is a name with a text.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// View is a metric of a result as it is to be shown: a table, and a plot if
// Plot is set.
type View struct {
	Metric  string `json:"metric"`
	Title   string `json:"title"`
	Unit    string `json:"unit"`
	X       string `json:"x"` // what X means
	Plot    bool   `json:"plot,omitempty"`
	LogX    bool   `json:"logX,omitempty"`    // X that are not positive are left out of the plot
	LogY    bool   `json:"logY,omitempty"`    // so are points that are not positive
	Nominal bool   `json:"nominal,omitempty"` // the X are cases: plotted side by side
	// Cases are the names of the X 0, 1, 2 and so on, if they are no quantities.
	Cases []string `json:"cases,omitempty"`
}

// Point is one measured quantity.
type Point struct {
	Series string    `json:"series"`
	X      float64   `json:"x"`
	Metric string    `json:"metric"`
	Stat   stat.Stat `json:"stat"`
}

// Add appends a point.
func (r *Result) Add(series string, x float64, metric string, rounds ...float64) {
	r.Points = append(r.Points, Point{Series: series, X: x, Metric: metric, Stat: stat.Of(rounds...)})
}

// Remark appends a remark.
func (r *Result) Remark(format string, a ...any) {
	r.Remarks = append(r.Remarks, fmt.Sprintf(format, a...))
}

// Write writes the raw JSON and the plots into dir, which it creates, and
// returns the paths of the files.
func (r *Result) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	files := []string{filepath.Join(dir, r.Scenario+".json")}
	if err := os.WriteFile(files[0], append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	for _, v := range r.Views {
		if !v.Plot || len(r.series(v.Metric)) == 0 { // nobody who was asked for has any
			continue
		}
		file := filepath.Join(dir, r.plotName(v))
		if err := r.plot(v, file); err != nil {
			return nil, fmt.Errorf("plot %s: %w", file, err)
		}
		files = append(files, file)
	}
	for _, c := range r.Charts {
		file := filepath.Join(dir, r.chartName(c))
		if err := c.draw(file); err != nil {
			return nil, fmt.Errorf("draw %s: %w", file, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func (r *Result) plotName(v View) string { return r.Scenario + "-" + v.Metric + ".svg" }

// Read reads a result that Write wrote.
func Read(file string) (Result, error) {
	var r Result
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// label is how an X of the view is shown.
func (v View) label(x float64) string {
	if i := int(x); float64(i) == x && i >= 0 && i < len(v.Cases) {
		return v.Cases[i]
	}
	return Count(x)
}

// series lists the series of a metric in order of appearance.
func (r *Result) series(metric string) []string {
	var names []string
	seen := make(map[string]bool)
	for _, p := range r.Points {
		if p.Metric == metric && !seen[p.Series] {
			seen[p.Series] = true
			names = append(names, p.Series)
		}
	}
	return names
}

func (r *Result) find(series string, x float64, metric string) (stat.Stat, bool) {
	for _, p := range r.Points {
		if p.Series == series && p.X == x && p.Metric == metric {
			return p.Stat, true
		}
	}
	return stat.Stat{}, false
}
