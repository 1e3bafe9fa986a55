package report

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth   = 22 * vg.Centimeter
	plotHeight  = 11 * vg.Centimeter
	legendWidth = 4.5 * vg.Centimeter
	lineHeight  = 14 // of the legend, points

	tickLetters = 110 // that have room below a plot
)

// palette is Okabe and Ito's, which colour-blind readers can tell apart too, and
// four of Tol's dark ones.
var palette = []color.RGBA{
	{0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x80, 0x80, 0x80, 0xff}, {0x00, 0x00, 0x00, 0xff},
	{0x33, 0x22, 0x88, 0xff}, {0x88, 0x22, 0x55, 0xff}, {0x99, 0x99, 0x33, 0xff}, {0x66, 0x33, 0x00, 0xff},
}

// dashes tell series apart whose colours are alike or the same: neighbours in
// the palette differ, and so do all of three rounds through it.
var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)}}

// ink is the colour and the dashes of series i, different for the first 36.
func ink(i int) (color.RGBA, []vg.Length) {
	return palette[i%len(palette)], dashes[(i+i/len(palette))%len(dashes)]
}

// plot draws the medians of a view, with bars from the least to the most of the
// rounds, and a legend beside it. The file is SVG.
func (r *Result) plot(v View, file string) error {
	p := newPlot(v)
	if v.LogX || v.Nominal {
		ticks := r.ticks(v)
		p.X.Tick.Marker = ticks
		if crowded(ticks) {
			p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/5, draw.XRight, draw.YCenter
		}
	}
	legend := newLegend()
	for i, series := range r.series(v.Metric) {
		points := r.line(v, series)
		if len(points.XYs) == 0 {
			continue
		}
		if err := addLine(p, &legend, i, series, points); err != nil {
			return err
		}
	}
	if math.IsInf(p.X.Min, 0) {
		return fmt.Errorf("no points of %q can be shown", v.Metric)
	}
	if !v.LogY {
		p.Y.Min = min(p.Y.Min, 0)
	}
	widen(&p.X, v.LogX)
	widen(&p.Y, v.LogY)
	return compose(p, legend, file)
}

func newPlot(v View) *plot.Plot {
	p := plot.New()
	p.Title.Text = v.Title
	p.Title.TextStyle.Font = sans(12)
	p.BackgroundColor = color.White
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10)
		axis.Tick.Label.Font = sans(9)
	}
	p.X.Label.Text = v.X
	p.Y.Label.Text = v.Unit
	p.Y.Tick.Marker = grouped{plot.DefaultTicks{}}
	if v.LogX {
		p.X.Scale = plot.LogScale{}
	}
	if v.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, grouped{plot.LogTicks{Prec: -1}}
	}
	p.Add(plotter.NewGrid())
	return p
}

func sans(points float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Points(points)}
}

func save(svg *vgsvg.Canvas, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = svg.WriteTo(f)
	return errors.Join(err, f.Close())
}

// spots are points with error bars, as gonum wants them.
type spots struct {
	plotter.XYs
	plotter.YErrors
}

func (r *Result) line(v View, series string) spots {
	var s spots
	for i, x := range r.axis(v.Metric) {
		st, ok := r.find(series, x, v.Metric)
		if !ok || v.LogY && st.Min <= 0 || v.LogX && !v.Nominal && x <= 0 {
			continue
		}
		if v.Nominal {
			x = float64(i)
		}
		s.XYs = append(s.XYs, plotter.XY{X: x, Y: st.Median})
		s.YErrors = append(s.YErrors, struct{ Low, High float64 }{st.Median - st.Min, st.Max - st.Median})
	}
	return s
}

func addLine(p *plot.Plot, legend *plot.Legend, i int, name string, s spots) error {
	line, dots, err := plotter.NewLinePoints(s.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(s)
	if err != nil {
		return err
	}
	shade, dash := ink(i)
	line.Color, dots.Color, bars.Color = shade, shade, shade
	line.Dashes = dash
	line.Width = vg.Points(1.5)
	if i == 0 {
		line.Width = vg.Points(2.5)
	}
	dots.Shape = draw.CircleGlyph{}
	dots.Radius = vg.Points(2.5)
	p.Add(line, dots, bars)
	legend.Add(name, line, dots)
	return nil
}

// widen gives an axis an extent where all values are the same.
func widen(a *plot.Axis, log bool) {
	switch {
	case a.Min != a.Max:
	case log:
		a.Min, a.Max = a.Min/2, a.Max*2
	default:
		a.Min, a.Max = a.Min-1, a.Max+1
	}
}

// ticks marks exactly the X that were measured.
func (r *Result) ticks(v View) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i, x := range r.axis(v.Metric) {
		at := x
		if v.Nominal {
			at = float64(i)
		}
		ticks = append(ticks, plot.Tick{Value: at, Label: v.label(x)})
	}
	return ticks
}

// crowded reports whether the labels would run into each other if they lay side by side.
func crowded(ticks plot.ConstantTicks) bool {
	longest := 0
	for _, t := range ticks {
		longest = max(longest, len(t.Label))
	}
	return longest*len(ticks) > tickLetters
}

// grouped labels the ticks of another marker in full: 1 000 000, not 1e+06.
type grouped struct{ plot.Ticker }

func (g grouped) Ticks(least, most float64) []plot.Tick {
	ticks := g.Ticker.Ticks(least, most)
	for i, t := range ticks {
		if t.Label != "" && math.Abs(t.Value) >= 1 {
			ticks[i].Label = Count(t.Value)
		}
	}
	return ticks
}
