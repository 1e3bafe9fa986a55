package report

import (
	"github.com/shardlimit/shardlimit/bench/internal/picture"
)

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
	Keep    bool    `json:"keep,omitempty"` // a document shows it, so its picture is stored
	Lines   []Line  `json:"lines"`
}

// Line is one line of a chart. Those of a group look the same and have one entry
// in the legend.
type Line struct {
	Group string    `json:"group"`
	Y     []float64 `json:"y"`
}

func (r *Result) chartName(c Chart) string { return r.Scenario + "-" + c.Name + ".svg" }

// drawChart is the picture of a chart.
func (r *Result) drawChart(c Chart) ([]byte, error) {
	courses := picture.Courses{
		Frame: picture.Frame{Title: r.Scenario + ": " + lowerFirst(c.Title), Note: c.Unit, Warning: r.warning()},
		X:     c.X, LogY: c.LogY, Floor: c.Floor, Ceiling: c.Ceiling, Mark: c.Mark,
	}
	for _, l := range c.Lines {
		line := picture.Series{Name: l.Group, Points: make([]picture.Point, len(l.Y))}
		for i, y := range l.Y {
			line.Points[i] = picture.Point{X: c.First + float64(i)*c.Step, Y: y}
		}
		courses.Lines = append(courses.Lines, line)
	}
	return courses.SVG()
}
