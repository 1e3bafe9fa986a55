package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/shardlimit/shardlimit/bench/internal/picture"
)

// Draw draws the pictures that documents show into dir. It returns the paths of the files.
func (r *Result) Draw(dir string) ([]string, error) {
	var files []string
	keep := func(name string, svg []byte, err error) error {
		if errors.Is(err, picture.ErrNothing) {
			return nil // a run of some cases may have none of those that the picture shows
		}
		if err != nil {
			return fmt.Errorf("picture %s: %w", name, err)
		}
		files = append(files, filepath.Join(dir, r.Scenario+"-"+name+".svg"))
		return os.WriteFile(files[len(files)-1], svg, 0o644)
	}
	for _, v := range r.Views {
		if !v.Keep {
			continue
		}
		svg, err := r.drawView(v)
		if err := keep(v.Metric, svg, err); err != nil {
			return files, err
		}
	}
	for _, c := range r.Charts {
		svg, err := r.drawChart(c)
		if err := keep(c.Name, svg, err); err != nil {
			return files, err
		}
	}
	return files, nil
}

// drawView is the picture of a view: dots if its X are cases, else lines.
func (r *Result) drawView(v View) ([]byte, error) {
	frame := picture.Frame{Title: cmp.Or(v.Head, v.Title),
		Note: v.Unit + ", by " + v.X + "; medians and extremes of the rounds", Warning: r.warning()}
	xs := r.axis(v.Metric)
	if len(v.At) > 0 {
		xs = slices.DeleteFunc(xs, func(x float64) bool { return !slices.Contains(v.At, v.label(x)) })
	}
	var all []picture.Series
	for _, name := range r.series(v.Metric) {
		if len(v.Drawn) > 0 && !slices.Contains(v.Drawn, name) {
			continue
		}
		s := picture.Series{Name: name}
		for i, x := range xs {
			if st, ok := r.find(name, x, v.Metric); ok {
				if v.Nominal {
					x = float64(i)
				}
				s.Points = append(s.Points, picture.Point{X: x, Y: st.Median, Low: st.Min, High: st.Max})
			}
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	if !v.Nominal {
		return picture.Lines{Frame: frame, X: v.X, LogX: v.LogX, LogY: v.LogY, At: xs, Dots: true, Series: all}.SVG()
	}
	cases := make([]string, len(xs))
	for i, x := range xs {
		cases[i] = v.label(x)
	}
	return picture.Dots{Frame: frame, Log: v.LogY, Cases: cases, Series: all}.SVG()
}

// drawChart is the picture of a chart.
func (r *Result) drawChart(c Chart) ([]byte, error) {
	lines := picture.Lines{
		Frame: picture.Frame{Title: c.Title, Note: c.Unit, Warning: r.warning()},
		X:     c.X, LogY: c.LogY, Floor: c.Floor, Ceiling: c.Ceiling, Mark: c.Mark,
	}
	for _, l := range c.Lines {
		line := picture.Series{Name: l.Group, Points: make([]picture.Point, len(l.Y))}
		for i, y := range l.Y {
			line.Points[i] = picture.Point{X: c.First + float64(i)*c.Step, Y: y, Low: y, High: y}
		}
		lines.Series = append(lines.Series, line)
	}
	return lines.SVG()
}
