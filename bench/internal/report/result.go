// Package report keeps the results of benchmarks and shows them: raw JSON, SVG
// pictures, a report of everything, and figures in other documents. It knows no
// scenario; a result carries its own titles and units.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/picture"
	"github.com/shardlimit/shardlimit/bench/internal/quiet"
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
	// Keep means that a document shows the plot, so that its picture is stored with the results.
	// All others can be drawn from the JSON.
	Keep bool `json:"keep,omitempty"`
	// Drawn are the series that the plot shows, and At the X, as they are shown; all if there are
	// none.
	Drawn []string `json:"drawn,omitempty"`
	At    []string `json:"at,omitempty"`
	// Mark is a value that the plot marks with a line, such as 100 %; 0 for none.
	Mark float64 `json:"mark,omitempty"`
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

// Write writes the raw JSON into dir, which it creates, and the pictures that Draw would.
// It returns the paths of the files.
func (r *Result) Write(dir string, all bool) ([]string, error) {
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
	pictures, err := r.Draw(dir, all)
	return append([]string{file}, pictures...), err
}

// Draw draws the pictures that documents show, or all that there are, into dir. It returns the
// paths of the files.
func (r *Result) Draw(dir string, all bool) ([]string, error) {
	var files []string
	write := func(name string, svg []byte, err error) error {
		if err != nil {
			return fmt.Errorf("picture %s: %w", name, err)
		}
		files = append(files, filepath.Join(dir, name))
		return os.WriteFile(filepath.Join(dir, name), svg, 0o644)
	}
	for _, v := range r.Views {
		if !v.Plot || !v.Keep && !all || len(r.series(v.Metric)) == 0 { // nobody who was asked for has any
			continue
		}
		svg, err := r.drawView(v)
		if errors.Is(err, picture.ErrNothing) {
			continue // a run of some cases may have none of those that the picture shows
		}
		if err := write(r.plotName(v), svg, err); err != nil {
			return files, err
		}
	}
	for _, c := range r.Charts {
		if !c.Keep && !all {
			continue
		}
		svg, err := r.drawChart(c)
		if err := write(r.chartName(c), svg, err); err != nil {
			return files, err
		}
	}
	return files, nil
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
