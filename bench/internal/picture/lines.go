package picture

import (
	"math"
	"slices"
)

// Lines shows quantities over a quantity: a line for each series, with its name at its end.
type Lines struct {
	Frame
	X          string
	LogX, LogY bool
	At         []float64 // X that are marked
	Series     []Series
}

const (
	linesWidth  = 760.0
	linesHeight = 320.0 // of the field
	labelStep   = 16.0
)

// SVG is the picture. Points that a logarithmic axis cannot show are left out.
func (l Lines) SVG() ([]byte, error) {
	l = l.shown()
	var xs, ys []float64
	wide := 0.0
	for _, s := range l.Series {
		wide = max(wide, textWidth(s.Name, fontSize))
		for _, p := range s.Points {
			xs = append(xs, p.X)
			ys = append(ys, p.Y, p.Low, p.High)
		}
	}
	if len(xs) == 0 {
		return nil, ErrNothing
	}
	c := &canvas{width: linesWidth}
	l.scaled(l.LogX, l.LogY)
	top := l.head(c) + 2
	y := extent(l.LogY, ys...)
	y.from, y.to = top+linesHeight, top
	left := 0.0
	for _, t := range y.ticks(6) {
		left = max(left, textWidth(t.label, fontSize))
	}
	x := axis{min: slices.Min(xs), max: slices.Max(xs), log: l.LogX}
	if x.min == x.max {
		x.min, x.max = x.min/2, x.max*2
	}
	x.from, x.to = margin+left+16, linesWidth-margin-wide-34
	l.grid(c, x, y)
	inks := Inks(nameAll(l.Series))
	for i, s := range l.Series {
		l.series(c, inks[i], s, x, y)
	}
	l.labels(c, inks, x, y)
	return c.svg(l.Title, y.from+2*lineStep+margin), nil
}

// shown leaves out what cannot be shown.
func (l Lines) shown() Lines {
	var kept []Series
	for _, s := range l.Series {
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
			return l.LogY && p.Low <= 0 || l.LogX && p.X <= 0
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
	free := math.Inf(-1)
	for _, at := range l.At {
		if l.LogX && at <= 0 {
			continue
		}
		label, px := number(at), x.at(at)
		c.line("grid", px, y.to, px, y.from+4)
		if half := textWidth(label, fontSize)/2 + 3; px-half >= free {
			c.text("faint", "middle", px, y.from+lineStep, label)
			free = px + half
		}
	}
	c.line("axis", x.from-6, y.from, x.to, y.from)
	c.text("text", "middle", (x.from+x.to)/2, y.from+2*lineStep, l.X)
}

func (l Lines) series(c *canvas, ink Ink, s Series, x, y axis) {
	line := make([][2]float64, len(s.Points))
	for i, p := range s.Points {
		line[i] = [2]float64{x.at(p.X), y.at(p.Y)}
		if p.High > p.Low {
			c.whisker(ink, line[i][0], y.at(p.Low), line[i][0], y.at(p.High))
		}
	}
	c.polyline(ink, "course", line)
	for _, p := range line {
		c.dot(ink, p[0], p[1])
	}
}

// labels names each line at its end; where ends lie close the names move apart.
func (l Lines) labels(c *canvas, inks []Ink, x, y axis) {
	ends := make([]float64, len(l.Series))
	for i, s := range l.Series {
		ends[i] = y.at(s.Points[len(s.Points)-1].Y)
	}
	for i, at := range spread(ends, labelStep, y.to, y.from) {
		last := l.Series[i].Points[len(l.Series[i].Points)-1]
		c.polyline(Ink{tone: inks[i].tone}, "leader", [][2]float64{{x.at(last.X) + 6, ends[i]}, {x.to + 12, at},
			{x.to + 16, at}})
		c.dot(inks[i], x.to+22, at)
		c.text("text", "start", x.to+30, at+4.5, l.Series[i].Name)
	}
}

// spread moves places apart until neighbours have the step between them, in their order, and
// within the field if there is room.
func spread(places []float64, step, top, bottom float64) []float64 {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case places[a] < places[b]:
			return -1
		case places[a] > places[b]:
			return 1
		}
		return 0
	})
	moved := slices.Clone(places)
	for range 200 { // each pass moves close neighbours apart by half of what they lack
		still := true
		for n := 1; n < len(order); n++ {
			above, below := order[n-1], order[n]
			if lack := step - (moved[below] - moved[above]); lack > 0.01 {
				moved[above] -= lack / 2
				moved[below] += lack / 2
				still = false
			}
		}
		for i := range moved {
			if in := min(max(moved[i], top), bottom); in != moved[i] && float64(len(moved)-1)*step <= bottom-top {
				moved[i] = in
			}
		}
		if still {
			break
		}
	}
	return moved
}
