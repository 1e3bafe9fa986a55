// Package report keeps the results of benchmarks and shows them: raw JSON, SVG pictures, and
// figures in documents. It knows no scenario; a result carries its own titles and units.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
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
	// Noise is what others took of the machine meanwhile; nil in results from before it was kept.
	Noise *quiet.Noise `json:"noise,omitempty"`
	// Timeless means that the figures are the same on every machine, however busy.
	Timeless bool     `json:"timeless,omitempty"`
	Software []Pair   `json:"software"` // names and versions
	Settings []Pair   `json:"settings"`
	Views    []View   `json:"views"`
	Points   []Point  `json:"points"`
	Charts   []Chart  `json:"charts,omitempty"`
	Remarks  []string `json:"remarks,omitempty"` // what went wrong or needs saying
}

// Pair is a name with a text.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// View is a metric of a result as it is to be shown.
type View struct {
	Metric  string `json:"metric"`
	Title   string `json:"title"`
	Head    string `json:"head,omitempty"` // of the picture, if that is not the title
	Unit    string `json:"unit"`
	X       string `json:"x"`                 // what X means
	LogX    bool   `json:"logX,omitempty"`    // X that are not positive are left out of the picture
	LogY    bool   `json:"logY,omitempty"`    // so are points that are not positive
	Nominal bool   `json:"nominal,omitempty"` // the X are cases: drawn side by side
	// Cases are the names of the X 0, 1, 2 and so on, if they are no quantities.
	Cases []string `json:"cases,omitempty"`
	// Keep means that a document shows a picture of it, which is stored with the results.
	Keep bool `json:"keep,omitempty"`
	// Drawn are the series that the picture shows, and At the X, as they are shown; all if there
	// are none.
	Drawn []string `json:"drawn,omitempty"`
	At    []string `json:"at,omitempty"`
}

// Point is one measured quantity.
type Point struct {
	Series string  `json:"series"`
	X      float64 `json:"x"`
	Metric string  `json:"metric"`
	Stat   Stat    `json:"stat"`
}

// Chart is a picture of many lines that are not worth a table: something over
// time, for instance.
type Chart struct {
	Name  string  `json:"name"` // of its file
	Title string  `json:"title"`
	X     string  `json:"x"`
	Unit  string  `json:"unit"`
	First float64 `json:"first"` // X of the first values
	Step  float64 `json:"step"`  // and from each to the next
	LogY  bool    `json:"logY,omitempty"`
	// Floor and Ceiling are the ends of the Y axis, if Ceiling is positive, so that
	// charts can be compared. What lies outside is drawn there.
	Floor   float64 `json:"floor,omitempty"`
	Ceiling float64 `json:"ceiling,omitempty"`
	Mark    float64 `json:"mark,omitempty"` // a value that a line shows; 0 for none
	Lines   []Line  `json:"lines"`
}

// Line is one line of a chart. Those of a group look the same and have one entry
// in the legend.
type Line struct {
	Group string    `json:"group"`
	Y     []float64 `json:"y"`
}

// Add appends a point.
func (r *Result) Add(series string, x float64, metric string, rounds ...float64) {
	r.Points = append(r.Points, Point{Series: series, X: x, Metric: metric, Stat: statOf(rounds)})
}

// Remark appends a remark.
func (r *Result) Remark(format string, a ...any) {
	r.Remarks = append(r.Remarks, fmt.Sprintf(format, a...))
}

// Write writes the raw JSON into dir, which it creates, and the pictures that Draw would.
// It returns the paths of the files.
func (r *Result) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, r.Scenario+".json")
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	pictures, err := r.Draw(dir)
	return append([]string{file}, pictures...), err
}

// Disturbed says why the figures are not to be relied on, "" if nothing is known against them.
func (r *Result) Disturbed() string {
	if r.Timeless {
		return ""
	}
	if r.Noise != nil && r.Noise.Known && r.Noise.Why() != "" {
		return r.Noise.Why()
	}
	if quiet.Busy(r.Machine.Load, r.Machine.Cores) {
		return "load averages " + r.Machine.Load + " on " + Count(float64(r.Machine.Cores)) + " cores"
	}
	return ""
}

// warning is what pictures say of that, in red.
func (r *Result) warning() string {
	if why := r.Disturbed(); why != "" {
		return "Measured while others used the machine, not to be quoted: " + why
	}
	return ""
}

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
	for _, p := range r.Points {
		if p.Metric == metric && !slices.Contains(names, p.Series) {
			names = append(names, p.Series)
		}
	}
	return names
}

// axis lists the X of a metric in order of size.
func (r *Result) axis(metric string) []float64 {
	var xs []float64
	for _, p := range r.Points {
		if p.Metric == metric {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

func (r *Result) find(series string, x float64, metric string) (Stat, bool) {
	for _, p := range r.Points {
		if p.Series == series && p.X == x && p.Metric == metric {
			return p.Stat, true
		}
	}
	return Stat{}, false
}
