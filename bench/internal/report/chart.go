package report

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
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
	Lines   []Line  `json:"lines"`
}

// Line is one line of a chart. Those of a group look the same and have one entry
// in the legend.
type Line struct {
	Group string    `json:"group"`
	Y     []float64 `json:"y"`
}

func (r *Result) chartName(c Chart) string { return r.Scenario + "-" + c.Name + ".svg" }

// draw draws the lines of large groups first and thin, so that they hide nobody.
func (c Chart) draw(file string) error {
	p := newPlot(View{Title: c.Title, Unit: c.Unit, X: c.X, LogY: c.LogY})
	legend := newLegend()
	groups := c.groups()
	order := slices.Clone(groups)
	slices.SortStableFunc(order, func(a, b string) int { return c.size(b) - c.size(a) })
	for _, group := range order {
		shade, _ := ink(slices.Index(groups, group))
		shown := false
		for _, l := range c.Lines {
			if l.Group != group || len(l.Y) == 0 {
				continue
			}
			line, err := plotter.NewLine(c.points(l))
			if err != nil {
				return err
			}
			line.Color, line.Width = shade, vg.Points(2)
			if c.size(group) > 1 {
				line.Width = vg.Points(0.6)
			}
			p.Add(line)
			if !shown {
				legend.Add(group, line)
				shown = true
			}
		}
	}
	if len(groups) == 0 {
		return fmt.Errorf("chart %q has no lines", c.Name)
	}
	if c.Ceiling > 0 {
		p.Y.Min, p.Y.Max = c.Floor, c.Ceiling
	}
	widen(&p.X, false)
	widen(&p.Y, c.LogY)
	return compose(p, legend, file)
}

func (c Chart) points(l Line) plotter.XYs {
	points := make(plotter.XYs, len(l.Y))
	for i, y := range l.Y {
		if c.Ceiling > 0 {
			y = min(max(y, c.Floor), c.Ceiling)
		}
		points[i] = plotter.XY{X: c.First + float64(i)*c.Step, Y: y}
	}
	return points
}

// groups are in order of appearance.
func (c Chart) groups() []string {
	var names []string
	for _, l := range c.Lines {
		if !slices.Contains(names, l.Group) {
			names = append(names, l.Group)
		}
	}
	return names
}

func (c Chart) size(group string) (n int) {
	for _, l := range c.Lines {
		if l.Group == group {
			n++
		}
	}
	return n
}

func newLegend() plot.Legend {
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font = sans(9)
	legend.Padding = vg.Points(3)
	return legend
}

// compose puts a legend beside a plot and saves both.
func compose(p *plot.Plot, legend plot.Legend, file string) error {
	svg := vgsvg.New(plotWidth, plotHeight)
	canvas := draw.New(svg)
	wide := max(legendWidth, legend.Rectangle(canvas).Size().X*1.1+vg.Points(12)) // a viewer's font may be wider
	p.Draw(draw.Crop(canvas, 0, -wide, 0, 0))
	legend.Draw(draw.Crop(canvas, plotWidth-wide+vg.Points(6), 0, 0, -vg.Points(lineHeight)))
	return save(svg, file)
}
