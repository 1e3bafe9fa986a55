package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// element is what a test looks at of an SVG.
type element struct {
	name, class, text string
	x, y              float64
	anchor            string
}

// elements reads a picture as XML, to its end.
func elements(t *testing.T, svg []byte) (all []element) {
	t.Helper()
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local}
			for _, a := range token.Attr {
				switch a.Name.Local {
				case "class":
					e.class = a.Value
				case "text-anchor":
					e.anchor = a.Value
				case "x":
					e.x, _ = strconv.ParseFloat(a.Value, 64)
				case "y":
					e.y, _ = strconv.ParseFloat(a.Value, 64)
				}
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

func texts(all []element, class string) (found []string) {
	for _, e := range all {
		if e.name == "text" && e.class == class {
			found = append(found, e.text)
		}
	}
	return found
}

var frame = Frame{Title: "exact: decisions & more per second, which is a title that needs more than a line of its " +
	"own here",
	Note: "decisions/s", Warning: "busy"}

func pictures(t *testing.T) map[string][]byte {
	t.Helper()
	two := []Series{{"shardlimit, 1 node", []Point{{0, 10, 9, 11}, {1, 1000, 900, 1000}}},
		{"redis_rate", []Point{{0, 20, 20, 20}, {1, 25, 25, 30}}}}
	all := map[string][]byte{}
	for name, draw := range map[string]func() ([]byte, error){
		"dots":    Dots{Frame: frame, Log: true, Cases: []string{"few", "many"}, Series: two}.SVG,
		"lines":   Lines{Frame: frame, X: "callers", At: []float64{0, 1}, LogY: true, Dots: true, Series: two}.SVG,
		"courses": Lines{Frame: frame, X: "windows", Series: two, Ceiling: 100, Mark: 1}.SVG,
	} {
		svg, err := draw()
		if err != nil {
			t.Fatal(name, err)
		}
		all[name] = svg
	}
	return all
}

// TestAPictureNeedsNoPage: its first shape is a ground that covers all of it, it has rules for dark
// pages, and every text lies within.
func TestAPictureNeedsNoPage(t *testing.T) {
	for name, svg := range pictures(t) {
		all := elements(t, svg)
		ground := slices.IndexFunc(all,
			func(e element) bool { return e.name == "rect" || e.name == "path" || e.name == "text" })
		if all[ground].class != "ground" || !bytes.Contains(svg, []byte("prefers-color-scheme:dark")) {
			t.Errorf("%s: no ground, or nothing for dark pages", name)
		}
		width := linesWidth
		if name == "dots" {
			width = dotsWidth
		}
		for _, e := range all {
			wide := textWidth(e.text, fontSize)
			if e.class == "head" {
				wide = textWidth(e.text, headSize*bold)
			}
			left := map[string]float64{"start": e.x, "middle": e.x - wide/2, "end": e.x - wide}[e.anchor]
			if e.name == "text" && (left < margin/2 || left+wide > width-margin/3) {
				t.Errorf("%s: %q reaches from %.0f to %.0f of %.0f", name, e.text, left, left+wide, width)
			}
		}
		if head := texts(all, "head"); strings.Join(head, " ") != frame.Title || len(head) < 2 {
			t.Errorf("%s: title %q", name, head)
		}
		if !slices.Equal(texts(all, "warning"), []string{"busy"}) ||
			!slices.Contains(texts(all, "text"), "redis_rate") {
			t.Errorf("%s: no warning, or no name of a series", name)
		}
	}
}

// TestCategoriesAreNotJoined: a picture of cases has a sign for each point and no line between.
func TestCategoriesAreNotJoined(t *testing.T) {
	svg := pictures(t)["dots"]
	signs, joined := 0, 0
	for _, e := range elements(t, svg) {
		if strings.HasPrefix(e.class, "dot ") || strings.HasPrefix(e.class, "ring ") {
			signs++
		}
		if strings.HasPrefix(e.class, "course") || strings.HasPrefix(e.class, "many") {
			joined++
		}
	}
	if signs != 4+2 || joined != 0 { // with those of the legend
		t.Errorf("%d signs, %d lines", signs, joined)
	}
}

func TestASubjectHasOneColour(t *testing.T) {
	alone := Inks([]string{"shardlimit"})[0]
	for _, names := range [][]string{{"redis_rate", "shardlimit, 4 nodes"}, {"x", "y", "shardlimit"}, {"httplimit"}} {
		if got := Inks(names)[len(names)-1]; got.tone != alone.tone {
			t.Errorf("in %v shardlimit is %s", names, got.tone.name)
		}
	}
	variants := Inks([]string{"shardlimit, 1 node", "shardlimit, 4 nodes", "shardlimit, 16 nodes", "a", "b", "c"})
	seen := map[string]bool{}
	for _, i := range variants {
		seen[fmt.Sprint(i.tone, i.sign, i.variant)] = true
	}
	if len(seen) != len(variants) {
		t.Errorf("two of them look alike: %v", variants)
	}
}

// TestRivalsLookDifferent: of the subjects that meet in a picture no two have the same colour, and
// of blue ones, which are alike, no two the same sign.
func TestRivalsLookDifferent(t *testing.T) {
	for _, names := range [][]string{
		{"shardlimit", "script", "gcra", "increx", "redis_rate", "rueidislimiter", "ulule", "go-zero"},
		{"no limiter", "EVALSHA", "httplimit", "redis_rate"}, {"shardlimit", "plain ZSET"},
		{"envoylimit", "envoyproxy/ratelimit"}, {"script", "EVALSHA"},
	} {
		tones, signs := map[string]string{}, map[int]string{}
		for i, ink := range Inks(names) {
			if other, found := tones[ink.tone.name]; found {
				t.Errorf("%s and %s are %s", names[i], other, ink.tone.name)
			}
			tones[ink.tone.name] = names[i]
			if !slices.Contains([]string{blue.name, sky.name, violet.name}, ink.tone.name) {
				continue
			}
			if other, found := signs[ink.sign]; found {
				t.Errorf("%s and %s have the same sign and nearly the same colour", names[i], other)
			}
			signs[ink.sign] = names[i]
		}
	}
}

// TestLogarithmsAreSaid: who reads the distance of two dots has to know the scale.
func TestLogarithmsAreSaid(t *testing.T) {
	all := []Series{{Name: "a", Points: []Point{{X: 1, Y: 1, Low: 1, High: 1}, {X: 2, Y: 9, Low: 9, High: 9}}}}
	for what, p := range map[string]interface{ SVG() ([]byte, error) }{
		"; logarithmic X axis<": Dots{Log: true, Cases: []string{"", "", ""}, Series: all},
		"; logarithmic axes<":   Lines{LogX: true, LogY: true, Series: all},
		"; logarithmic Y axis<": Lines{LogY: true, Series: all},
		"":                      Lines{Series: all},
	} {
		svg, err := p.SVG()
		if err != nil || !strings.Contains(string(svg), what) {
			t.Errorf("%q is not said: %v", what, err)
		}
		if what == "" && strings.Contains(string(svg), "logarithmic") {
			t.Error("a linear axis is called logarithmic")
		}
	}
}

// TestContrast: every tone can be told from its ground, as WCAG asks of graphics.
func TestContrast(t *testing.T) {
	for _, i := range subjects {
		if c := contrast(t, i.tone.light, "#ffffff"); c < 3 {
			t.Errorf("%s on white has a contrast of %.1f", i.tone.name, c)
		}
		if c := contrast(t, i.tone.dark, "#0d1117"); c < 3 {
			t.Errorf("%s on dark has a contrast of %.1f", i.tone.name, c)
		}
	}
}

// contrast is that of two colours after WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		v := float64(n>>(8*i)&0xff) / 255
		if v <= 0.03928 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis axis
		want string
	}{
		{extent(false, 0, 198), "0 50 100 150 200"},
		{extent(false, 100), "0 20 40 60 80 100"},
		{extent(false, 1.02), "0 0.2 0.4 0.6 0.8 1"},
		{extent(false, -2, 10), "0 5 10"},
		{extent(true, 5, 60_000), "10 100 1000 10 000 100 000"},
		{extent(true, 30, 300), "50 100 200"},
		{extent(true, 0.01, 0.02), "0.01 0.02"},
	} {
		var labels []string
		for _, tick := range c.axis.ticks(6) {
			labels = append(labels, tick.label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.axis, got, c.want)
		}
	}
}

// TestWhiskersFit: an axis reaches from the least to the most of all rounds.
func TestWhiskersFit(t *testing.T) {
	for _, log := range []bool{false, true} {
		a := extent(log, 3, 1, 700)
		a.from, a.to = 0, 100
		if low, high := a.at(1), a.at(700); low < 0 || high > 99 || high <= low {
			t.Errorf("log %v: from %v to %v", log, low, high)
		}
	}
}

func TestNothingToShow(t *testing.T) {
	zero := []Series{{"a", []Point{{1, 0, 0, 0}}}}
	for name, draw := range map[string]func() ([]byte, error){
		"dots":  Dots{Log: true, Cases: []string{"a", "b"}, Series: zero}.SVG,
		"lines": Lines{LogY: true, Series: zero}.SVG,
	} {
		if _, err := draw(); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
