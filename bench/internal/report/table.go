package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table renders a view as a Markdown table: a row a series, a column an X, and
// in each cell the median with the extremes of the rounds.
func (r *Result) table(v View) string {
	xs := r.axis(v.Metric)
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", v.X)
	for _, x := range xs {
		fmt.Fprintf(&b, " %s |", v.label(x))
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(xs)) + "\n")
	for _, series := range r.series(v.Metric) {
		fmt.Fprintf(&b, "| %s |", series)
		for _, x := range xs {
			fmt.Fprintf(&b, " %s |", r.cell(series, x, v.Metric))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *Result) cell(series string, x float64, metric string) string {
	s, ok := r.find(series, x, metric)
	switch {
	case !ok:
		return ""
	case len(s.Rounds) == 1 || s.Min == s.Max:
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", figure(s.Median), figure(s.Min), figure(s.Max))
}

// axis lists the X of a metric in order of size.
func (r *Result) axis(metric string) []float64 {
	var xs []float64
	for _, p := range r.Points {
		if p.Metric == metric {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// figure prints a measured number with three digits that count, thousands
// grouped: 1.23, 45.6, 789, 12 300.
func figure(x float64) string {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	if digits > 0 {
		return strconv.FormatFloat(x, 'f', min(digits, 4), 64)
	}
	unit := math.Pow10(-digits)
	return group(int64(math.Round(x/unit) * unit))
}

// Count prints a number that was chosen, in full.
func Count(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return group(int64(x))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// group puts a space between groups of three digits of numbers with at least five.
func group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	if n > -10_000 && n < 10_000 {
		return digits
	}
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}
