package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

var record = flag.Bool("film", false, "play a demo, and write "+filmed+" anew")

// filmed is the demo of the README: an animation that needs no script.
const filmed = "../../../../docs/demo.svg"

// Columns and rows of the terminal that is filmed, in pixels of the film.
const (
	filmColumns, filmRows  = 80, 24
	filmColumn, filmRow    = 7.8, 17.0
	filmMargin, filmTitle  = 14.0, 30.0
	filmEvery, filmShows   = 500 * time.Millisecond, 250 * time.Millisecond
	filmVerdict            = 5 * time.Second
	filmWide               = filmColumns*filmColumn + 2*filmMargin
	filmHigh               = filmTitle + filmRows*filmRow + filmMargin
	filmLight              = "#ffffff #1f2328 #59636e #cf222e #1a7f37 #0a6c8f"
	filmDark               = "#0d1117 #f0f6fc #9198a1 #ff7b72 #3fb950 #39c5cf"
	filmBytes              = 120_000
	filmEighths            = "▏▎▍▌▋▊▉"
	filmCommand, filmSpeed = "$ shardlimit demo", "shown at twice its speed"
)

// film keeps what is to be shown.
type film struct {
	shots []Snapshot
	next  time.Duration
	end   string // the verdict
}

func (f *film) Show(s Snapshot) {
	if s.Elapsed >= f.next {
		f.shots, f.next = append(f.shots, s), f.next+filmEvery
	}
}

// A cel is a piece of text or a bar at a place of the terminal.
type cel struct {
	row, column int
	style, text string
}

// cels are those of some rows.
func cels(rows []row) (all []cel) {
	for y, r := range rows {
		x := 0
		for _, s := range r {
			if text := strings.TrimLeft(s.text, " "); strings.TrimSpace(text) != "" {
				all = append(all, cel{y, x + len(s.text) - len(text), s.style, strings.TrimRight(text, " ")})
			}
			x += utf8.RuneCountInString(s.text)
		}
	}
	return all
}

// draw writes a cel as a text or, if it is a bar, as a rectangle.
func (c cel) draw(b *bytes.Buffer) {
	class := map[string]string{plain: "t", bold: "b", dim: "d", red: "r", green: "g", cyan: "c"}[c.style]
	x, y := filmMargin+float64(c.column)*filmColumn, filmTitle+float64(c.row)*filmRow
	if rest := strings.TrimLeft(c.text, "█"); strings.Trim(rest, filmEighths) == "" {
		eighths := utf8.RuneCountInString(c.text[:len(c.text)-len(rest)]) * 8
		if rest != "" {
			eighths += utf8.RuneCountInString(filmEighths[:strings.Index(filmEighths, rest)]) + 1
		}
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.0f"/>`, class, x, y+3,
			float64(eighths)*filmColumn/8, filmRow-4)
		return
	}
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y+filmRow-4, html.EscapeString(c.text))
}

// svg shows one frame after the other, over what is the same in all, and at the end the verdict as
// it stands below the last.
func (f *film) svg() []byte {
	var frames [][]cel
	for _, s := range f.shots {
		frames = append(frames, cels(frame(s, filmColumns-1, filmRows-1)))
	}
	end := append(frame(f.shots[len(f.shots)-1], filmColumns-1, filmRows-1), nil)
	for line := range strings.Lines(f.end) {
		end = append(end, row{{plain, strings.TrimSuffix(line, "\n")}})
	}
	takes := time.Duration(len(frames))*filmShows + filmVerdict
	part := func(d time.Duration) float64 { return 100 * d.Seconds() / takes.Seconds() }
	colours := func(of string) string {
		c := strings.Fields(of)
		return fmt.Sprintf(".z{fill:%s}.t,.b{fill:%s}.d{fill:%[3]s}.o{stroke:%[3]s}.r{fill:%s}.g{fill:%s}.c{fill:%s}",
			c[0], c[1], c[2], c[3], c[4], c[5])
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]g" height="%[2]g"
 viewBox="0 0 %[1]g %[2]g" role="img">
<title>shardlimit demo: a fleet shares one limit, which changes while a node goes and comes back</title>
<!-- go -C cmd/shardlimit test ./internal/demo -run TestFilm -film -->
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace}
text{white-space:pre}
.b{font-weight:bold}.f{visibility:hidden;animation:%.2[3]fs step-end infinite f}.e{visibility:visible;animation-name:e}
@keyframes f{0%%{visibility:visible}%.4[4]f%%,to{visibility:hidden}}
@keyframes e{0%%{visibility:visible}%.4[5]f%%,to{visibility:hidden}}
@media (prefers-reduced-motion:reduce){.f{animation:none}}
%[6]s
@media (prefers-color-scheme:dark){%[7]s}
</style>
<rect class="z o" x="1" y="1" width="%[8]g" height="%[9]g" rx="6"/>
`, filmWide, filmHigh, takes.Seconds(), part(filmShows), part(filmVerdict), colours(filmLight), colours(filmDark),
		filmWide-2, filmHigh-2)
	fmt.Fprintf(&b, `<text class="d" x="%g" y="20">%s</text>`, filmMargin, filmCommand)
	fmt.Fprintf(&b, `<text class="d" x="%g" y="20" text-anchor="end">%s</text>`+"\n", filmWide-filmMargin, filmSpeed)
	same := frames[0]
	for _, cels := range frames[1:] {
		same = slices.DeleteFunc(slices.Clone(same), func(c cel) bool { return !slices.Contains(cels, c) })
	}
	for _, c := range same {
		c.draw(&b)
	}
	for i, cels := range frames {
		fmt.Fprintf(&b, "\n"+`<g class="f" style="animation-delay:%.2fs">`,
			(time.Duration(i)*filmShows - takes).Seconds())
		for _, c := range cels {
			if !slices.Contains(same, c) {
				c.draw(&b)
			}
		}
		b.WriteString("</g>")
	}
	fmt.Fprintf(&b, "\n"+`<g class="f e" style="animation-delay:%.2fs">`, -filmVerdict.Seconds())
	fmt.Fprintf(&b, `<rect class="z" x="4" y="%g" width="%g" height="%g"/>`, filmTitle, filmWide-8,
		filmHigh-filmTitle-6)
	for _, c := range cels(end[max(0, len(end)-filmRows):]) {
		c.draw(&b)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

// shoot plays a demo and stores its film. On a machine that others use it is less fair.
func shoot(t *testing.T) {
	t.Helper()
	f := &film{}
	v, err := Run(t.Context(), Config{For: 20 * time.Second, Rate: spelling.Rate{Permits: 2000, Per: time.Second},
		Nodes: 4, Workers: 8}, f.Show)
	if f.end = v.String(); err != nil || !strings.Contains(f.end, ": fair\n") {
		t.Fatal(v, err)
	}
	limittest.Must(t, os.WriteFile(filmed, f.svg(), 0o644))
}

// TestFilm looks at the stored film: whether it shows what the demo shows now, in light and in
// dark, and stands still for readers who want that. With -film it makes another.
func TestFilm(t *testing.T) {
	if *record {
		shoot(t)
	}
	film, err := os.ReadFile(filmed)
	if err != nil || len(film) > filmBytes {
		t.Fatalf("%d bytes, %v", len(film), err)
	}
	v := Verdict{Window: time.Second, Admitted: 2, findings: []finding{{limit: 2, ok: true}},
		parts: []part{{name: "worker 1", wanted: 2, entitled: 2, got: 2}}}
	rows := append(frame(example(), filmColumns-1, filmRows-1), row{{plain, v.String()}})
	for decoder := xml.NewDecoder(bytes.NewReader(film)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"prefers-color-scheme:dark", "prefers-reduced-motion:reduce", "<rect class=\"g\""}
	for _, r := range rows {
		for _, s := range r {
			want = append(want, strings.FieldsFunc(s.text, func(r rune) bool { return !unicode.IsLetter(r) })...)
		}
	}
	for _, word := range want {
		if !strings.Contains(html.UnescapeString(string(film)), word) {
			t.Errorf("the film does not show %q; go test -run TestFilm -film plays it anew", word)
		}
	}
}
