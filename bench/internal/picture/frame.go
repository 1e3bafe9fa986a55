package picture

import "errors"

// ErrNothing means that none of the points can be shown.
var ErrNothing = errors.New("picture: there are no points to show")

// Frame is what pictures of all kinds have.
type Frame struct {
	Title   string
	Note    string // the unit, and how to read the picture
	Warning string // in red: why the figures are not to be relied on; "" for none
}

// Series are the points of one subject.
type Series struct {
	Name   string
	Points []Point
}

// Point is a median with the least and the most of the rounds.
type Point struct{ X, Y, Low, High float64 }

// bold is how much wider letters of that kind are.
const bold = 1.1

// head writes title, note and warning, and returns where the rest begins.
func (f Frame) head(c *canvas) float64 {
	y := margin + headSize - 4
	for _, text := range []struct {
		class, text string
		size        float64
	}{{"head", f.Title, headSize * bold}, {"faint", f.Note, fontSize}, {"warning", f.Warning, fontSize * bold}} {
		for _, line := range wrapped(text.text, text.size, c.width-2*margin) {
			c.text(text.class, "start", margin, y, line)
			y += lineStep
		}
	}
	return y
}

// scaled has the note say which axes are logarithmic.
func (f *Frame) scaled(x, y bool) {
	switch {
	case x && y:
		f.Note += "; logarithmic axes"
	case x:
		f.Note += "; logarithmic X axis"
	case y:
		f.Note += "; logarithmic Y axis"
	}
}

// legend names all series in rows, and returns where the rest begins.
func legend(c *canvas, names []string, inks []Ink, y float64, lines bool) float64 {
	const gap, sign = 18.0, 16.0
	x := margin
	for i, name := range names {
		wide := sign + textWidth(name, fontSize)
		if x > margin && x+wide > c.width-margin {
			x, y = margin, y+lineStep
		}
		if lines {
			c.polyline(inks[i], "course", [][2]float64{{x, y - 4}, {x + sign - 4, y - 4}})
		} else {
			c.dot(inks[i], x+5, y-4.5)
		}
		c.text("text", "start", x+sign, y, name)
		x += wide + gap
	}
	return y + lineStep
}

// whisker draws from the least to the most, upright or lying, with short ends.
func (c *canvas) whisker(i Ink, x1, y1, x2, y2 float64) {
	const end = 3
	c.body.WriteString(`<g class="` + c.tone(i) + `">`)
	c.line("whisker", x1, y1, x2, y2)
	if x1 == x2 {
		c.line("whisker", x1-end, y1, x1+end, y1)
		c.line("whisker", x1-end, y2, x1+end, y2)
	} else {
		c.line("whisker", x1, y1-end, x1, y1+end)
		c.line("whisker", x2, y2-end, x2, y2+end)
	}
	c.body.WriteString("</g>\n")
}
