package picture

import (
	"math"
	"slices"
)

// Lines shows quantities over a quantity: a line for each series. Those of one name look the same.
type Lines struct {
	Frame
	X          string
	LogX, LogY bool
	At         []float64 // X that are marked; none: round ones
	Dots       bool      // points are marked, with the least and the most of the rounds
	// Floor and Ceiling are the ends of the Y axis if Ceiling is positive, so that pictures can be
	// compared. What lies outside is drawn there.
	Floor, Ceiling float64
	Mark           float64 // a value that a line shows; 0 for none
	Series         []Series
}

const (
	linesWidth  = 640.0
	linesHeight = 260.0 // of the field
)

// SVG is the picture. Points that a logarithmic axis cannot show are left out. Large groups are
// drawn first and thin, so that they hide nobody.
func (l Lines) SVG() ([]byte, error) {
	l = l.shown()
	var xs, ys []float64
	var names []string
	size := map[string]int{}
	for _, s := range l.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y, p.Low, p.High)
		}
		if size[s.Name]++; size[s.Name] == 1 {
			names = append(names, s.Name)
		}
	}
	if len(xs) == 0 {
		return nil, ErrNothing
	}
	inks := Inks(names)
	c := &canvas{width: linesWidth}
	l.scaled(l.LogX, l.LogY)
	top := legend(c, names, inks, l.head(c)+4, !l.Dots)
	y := extent(l.LogY, ys...)
	if l.Ceiling > 0 {
		y.min, y.max = l.Floor, l.Ceiling
	}
	y.from, y.to = top+linesHeight, top
	left := 0.0
	for _, t := range y.ticks(6) {
		left = max(left, textWidth(t.label, fontSize))
	}
	x := axis{min: slices.Min(xs), max: slices.Max(xs), log: l.LogX, from: margin + left + 16,
		to: linesWidth - margin - 12}
	if x.min == x.max {
		x.min, x.max = x.min/2, x.max*2
	}
	l.grid(c, x, y)
	order := slices.Clone(names)
	slices.SortStableFunc(order, func(a, b string) int { return size[b] - size[a] })
	for _, name := range order {
		class := "course"
		if size[name] > 4 {
			class = "many"
		}
		for _, s := range l.Series {
			if s.Name == name {
				l.series(c, inks[slices.Index(names, name)], class, s, x, y)
			}
		}
	}
	return c.svg(l.Title, y.from+2*lineStep+margin), nil
}

// shown leaves out what cannot be shown. On a logarithmic axis with a floor that is nothing.
func (l Lines) shown() Lines {
	var kept []Series
	for _, s := range l.Series {
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
			return l.LogY && p.Low <= 0 && l.Floor == 0 || l.LogX && p.X <= 0
		})
		if len(s.Points) > 0 {
			kept = append(kept, s)
		}
	}
	l.Series = kept
	return l
}

func (l Lines) grid(c *canvas, x, y axis) {
	for _, t := range y.ticks(6) {
		c.line("grid", x.from-6, y.at(t.at), x.to, y.at(t.at))
		c.text("faint", "end", x.from-12, y.at(t.at)+4.5, t.label)
	}
	var marks []tick
	for _, at := range l.At {
		if !l.LogX || at > 0 {
			marks = append(marks, tick{at, number(at)})
		}
	}
	if len(l.At) == 0 {
		marks = x.ticks(8)
	}
	free := math.Inf(-1)
	for _, t := range marks {
		px := x.at(t.at)
		c.line("grid", px, y.to, px, y.from+4)
		if half := textWidth(t.label, fontSize)/2 + 3; px-half >= free {
			c.text("faint", "middle", px, y.from+lineStep, t.label)
			free = px + half
		}
	}
	c.line("axis", x.from-6, y.from, x.to, y.from)
	if l.Mark > 0 {
		c.line("axis", x.from, y.at(l.Mark), x.to, y.at(l.Mark))
	}
	c.text("text", "middle", (x.from+x.to)/2, y.from+2*lineStep, l.X)
}

func (l Lines) series(c *canvas, ink Ink, class string, s Series, x, y axis) {
	line := make([][2]float64, len(s.Points))
	for i, p := range s.Points {
		line[i] = [2]float64{x.at(p.X), y.at(p.Y)}
		if l.Dots && p.High > p.Low {
			c.whisker(ink, line[i][0], y.at(p.Low), line[i][0], y.at(p.High))
		}
	}
	c.polyline(ink, class, line)
	if !l.Dots {
		return
	}
	for _, p := range line {
		c.dot(ink, p[0], p[1])
	}
}
