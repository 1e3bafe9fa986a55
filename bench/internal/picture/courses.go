package picture

import "slices"

// Courses shows many lines over time. Those of one name look the same.
type Courses struct {
	Frame
	X    string
	LogY bool
	// Floor and Ceiling are the ends of the Y axis if Ceiling is positive, so that pictures can be
	// compared. What lies outside is drawn there.
	Floor, Ceiling float64
	Mark           float64 // a value that a line shows; 0 for none
	Lines          []Series
}

const (
	coursesWidth  = 560.0
	coursesHeight = 240.0 // of the field
)

// SVG is the picture. Large groups are drawn first and thin, so that they hide nobody.
func (s Courses) SVG() ([]byte, error) {
	var xs, ys []float64
	var names []string
	size := map[string]int{}
	for _, line := range s.Lines {
		for _, p := range line.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
		if size[line.Name]++; size[line.Name] == 1 {
			names = append(names, line.Name)
		}
	}
	if len(xs) == 0 {
		return nil, ErrNothing
	}
	inks := Inks(names)
	c := &canvas{width: coursesWidth}
	s.scaled(false, s.LogY)
	top := legend(c, names, inks, s.head(c)+4, true)
	y := extent(s.LogY, ys...)
	if s.Ceiling > 0 {
		y.min, y.max = s.Floor, s.Ceiling
	}
	y.from, y.to = top+coursesHeight, top
	left := 0.0
	for _, t := range y.ticks(6) {
		left = max(left, textWidth(t.label, fontSize))
	}
	x := axis{min: slices.Min(xs), max: slices.Max(xs), from: margin + left + 12, to: coursesWidth - margin - 8}
	if x.min == x.max {
		x.max++
	}
	s.grid(c, x, y)
	order := slices.Clone(names)
	slices.SortStableFunc(order, func(a, b string) int { return size[b] - size[a] })
	for _, name := range order {
		class := "course"
		if size[name] > 4 {
			class = "many"
		}
		for _, line := range s.Lines {
			if line.Name == name {
				s.draw(c, inks[slices.Index(names, name)], class, line.Points, x, y)
			}
		}
	}
	return c.svg(s.Title, y.from+2*lineStep+margin), nil
}

func (s Courses) draw(c *canvas, ink Ink, class string, points []Point, x, y axis) {
	line := make([][2]float64, len(points))
	for i, p := range points {
		line[i] = [2]float64{x.at(p.X), y.at(p.Y)}
	}
	if len(line) > 0 {
		c.polyline(ink, class, line)
	}
}

func (s Courses) grid(c *canvas, x, y axis) {
	for _, t := range y.ticks(6) {
		c.line("grid", x.from-4, y.at(t.at), x.to, y.at(t.at))
		c.text("faint", "end", x.from-10, y.at(t.at)+4.5, t.label)
	}
	for _, t := range x.ticks(8) {
		c.line("grid", x.at(t.at), y.to, x.at(t.at), y.from+4)
		c.text("faint", "middle", x.at(t.at), y.from+lineStep, t.label)
	}
	c.line("axis", x.from-4, y.from, x.to, y.from)
	if s.Mark > 0 {
		c.line("axis", x.from, y.at(s.Mark), x.to, y.at(s.Mark))
	}
	c.text("text", "middle", (x.from+x.to)/2, y.from+2*lineStep, s.X)
}
