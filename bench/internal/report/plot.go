package report

import (
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/bench/internal/picture"
)

// drawView is the picture of a view: dots if its X are cases, else lines.
func (r *Result) drawView(v View) ([]byte, error) {
	frame := picture.Frame{Title: r.Scenario + ": " + lowerFirst(v.Title), Note: v.note(), Warning: r.warning()}
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
			st, ok := r.find(name, x, v.Metric)
			if !ok {
				continue
			}
			if v.Nominal {
				x = float64(i)
			}
			s.Points = append(s.Points, picture.Point{X: x, Y: st.Median, Low: st.Min, High: st.Max})
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	if !v.Nominal {
		return picture.Lines{Frame: frame, X: v.X, LogX: v.LogX, LogY: v.LogY, At: xs, Series: all}.SVG()
	}
	cases := make([]string, len(xs))
	for i, x := range xs {
		cases[i] = v.label(x)
	}
	return picture.Dots{Frame: frame, Log: v.LogY, Mark: v.Mark, Cases: cases, Series: all}.SVG()
}

// note says the unit, and how to read the picture.
func (v View) note() string {
	return v.Unit + ", by " + v.X + "; medians and extremes of the rounds"
}

// lowerFirst has a title follow a name, unless it begins with an abbreviation or a name.
func lowerFirst(title string) string {
	first, _, _ := strings.Cut(title, " ")
	if first == strings.ToUpper(first) || strings.HasSuffix(first, "'s") {
		return title
	}
	return strings.ToLower(title[:1]) + title[1:]
}
