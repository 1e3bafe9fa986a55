// Package picture draws what was measured as SVG, readable on light and on dark pages. A picture
// has a ground of its own, so that it never depends on the page; where the reader's scheme is dark
// it is dark itself. It knows no benchmark: it is given names, numbers and titles.
package picture

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
)

const (
	margin   = 18.0 // between the edge and whatever is drawn, pixels
	fontSize = 13.0
	headSize = 16.0
	lineStep = 18.0 // from a line of text to the next
)

// canvas collects the elements of a picture. Lengths are pixels, the origin is at the top left.
type canvas struct {
	width float64
	body  bytes.Buffer
	tones []tone // that are used
}

// attribute prints a length.
func attribute(x float64) string {
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// line draws a straight line of one of the frame's classes: grid, axis or whisker.
func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.body, `<path class="%s" d="M%s %sL%s %s"/>`+"\n", class,
		attribute(x1), attribute(y1), attribute(x2), attribute(y2))
}

// text writes at a point; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(&c.body, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`+"\n", class, anchor,
		attribute(x), attribute(y), html.EscapeString(text))
}

// polyline joins points, with the pattern of the ink.
func (c *canvas) polyline(i Ink, class string, points [][2]float64) {
	var path strings.Builder
	for n, p := range points {
		path.WriteString(string("ML"[min(n, 1)]) + attribute(p[0]) + " " + attribute(p[1]))
	}
	dash := ""
	if d := dashes[i.variant%len(dashes)]; d != "" {
		dash = ` stroke-dasharray="` + d + `"`
	}
	fmt.Fprintf(&c.body, `<path class="%s %s"%s d="%s"/>`+"\n", class, c.tone(i), dash, path.String())
}

// dot draws the sign of an ink.
func (c *canvas) dot(i Ink, x, y float64) {
	class := "dot"
	if i.variant > 0 {
		class = "ring"
	}
	fmt.Fprintf(&c.body, `<path class="%s %s" transform="translate(%s %s)" d="%s"/>`+"\n", class, c.tone(i),
		attribute(x), attribute(y), signs[(i.sign+i.variant)%len(signs)])
}

// tone is the class of an ink's colour.
func (c *canvas) tone(i Ink) string {
	if !slices.Contains(c.tones, i.tone) {
		c.tones = append(c.tones, i.tone)
	}
	return i.tone.name
}

const (
	lightRules = `.ground{fill:#ffffff}.head,.text{fill:#1f2328}.faint{fill:#59636e}.warning{fill:#cf222e}` +
		`.grid{stroke:#d8dee4}.axis{stroke:#59636e}.ring{fill:#ffffff}`
	darkRules = `.ground{fill:#0d1117}.head,.text{fill:#f0f6fc}.faint{fill:#9198a1}.warning{fill:#ff7b72}` +
		`.grid{stroke:#2a313a}.axis{stroke:#9198a1}.ring{fill:#0d1117}`
	shapes = `text{font:13px Helvetica,Arial,"Liberation Sans",sans-serif}.head{font-size:16px;font-weight:bold}` +
		`.warning{font-weight:bold}path{fill:none;stroke-width:1}.course{stroke:currentColor;stroke-width:2}` +
		`.many{stroke:currentColor;stroke-width:.8;opacity:.55}.whisker{stroke:currentColor;stroke-width:1.4}` +
		`.dot{fill:currentColor}.ring{stroke:currentColor;stroke-width:1.6}`
)

// svg is the whole picture.
func (c *canvas) svg(title string, height float64) []byte {
	var light, dark strings.Builder
	for _, t := range c.tones {
		fmt.Fprintf(&light, ".%s{color:%s}", t.name, t.light)
		fmt.Fprintf(&dark, ".%s{color:%s}", t.name, t.dark)
	}
	var b bytes.Buffer
	w, h := attribute(c.width), attribute(height)
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img">`+"\n",
		w, h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s\n%s%s\n@media (prefers-color-scheme:dark){%s%s}\n</style>\n",
		html.EscapeString(title), shapes, lightRules, light.String(), darkRules, dark.String())
	fmt.Fprintf(&b, `<rect class="ground" width="%s" height="%s" rx="6"/>`+"\n", w, h)
	b.Write(c.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// textWidth is about how wide a text is, rather too wide, because fonts differ.
func textWidth(text string, size float64) float64 {
	var ems float64
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtf.,:;'|!()/ ", r):
			ems += 0.36
		case strings.ContainsRune("mwMW%", r):
			ems += 0.97
		case r >= 'A' && r <= 'Z':
			ems += 0.73
		default:
			ems += 0.63
		}
	}
	return ems * size
}

// wrapped breaks a text into lines that fit.
func wrapped(text string, size, width float64) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && textWidth(line+" "+word, size) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}
