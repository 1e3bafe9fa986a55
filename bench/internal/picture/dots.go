package picture

// Dots shows categories: a row for each case, and in it a dot for each series, one below the other.
// Nothing is joined. The X of a point is the place of its case.
type Dots struct {
	Frame
	Log    bool
	Cases  []string
	Series []Series
}

const (
	dotsWidth = 760.0
	laneStep  = 12.0 // from the dot of a series to the next
)

// SVG is the picture.
func (d Dots) SVG() ([]byte, error) {
	var values []float64
	points := 0
	for _, s := range d.Series {
		for _, p := range s.Points {
			if d.Log && p.Y <= 0 {
				continue
			}
			values = append(values, p.Y, p.Low, p.High)
			points++
		}
	}
	if points == 0 {
		return nil, ErrNothing
	}
	c := &canvas{width: dotsWidth}
	d.scaled(d.Log, false)
	y := d.head(c)
	names := make([]string, len(d.Series))
	for i, s := range d.Series {
		names[i] = s.Name
	}
	inks := Inks(names)
	y = legend(c, names, inks, y+4, false)
	wide := 0.0
	for _, name := range d.Cases {
		wide = max(wide, textWidth(name, fontSize))
	}
	scale := extent(d.Log, values...)
	scale.from, scale.to = margin+min(wide, dotsWidth/3)+14, dotsWidth-margin-16
	row := max(26, laneStep*float64(len(d.Series))+12)
	bottom := y + row*float64(len(d.Cases))
	d.grid(c, scale, y, row, bottom)
	for i, s := range d.Series {
		for _, p := range s.Points {
			if d.Log && p.Y <= 0 {
				continue
			}
			lane := y + row*p.X + row/2 + laneStep*(float64(i)-float64(len(d.Series)-1)/2)
			if p.High > p.Low {
				c.whisker(inks[i], scale.at(p.Low), lane, scale.at(p.High), lane)
			}
			c.dot(inks[i], scale.at(p.Y), lane)
		}
	}
	return c.svg(d.Title, bottom+lineStep+margin), nil
}

// grid draws ticks, cases and the lines between them.
func (d Dots) grid(c *canvas, scale axis, y, row, bottom float64) {
	for _, t := range scale.ticks(7) {
		c.line("grid", scale.at(t.at), y, scale.at(t.at), bottom)
		c.text("faint", "middle", scale.at(t.at), bottom+lineStep, t.label)
	}
	for i, name := range d.Cases {
		c.line("grid", margin, y+row*float64(i), dotsWidth-margin, y+row*float64(i))
		c.text("text", "end", scale.from-10, y+row*(float64(i)+0.5)+4.5, name)
	}
	c.line("axis", scale.from, bottom, scale.to, bottom)
}
