package picture

import (
	"math"
	"strconv"
	"strings"
)

// axis is a scale from values to pixels.
type axis struct {
	min, max float64 // values; above 0 if log
	log      bool
	from, to float64 // pixels of min and max
}

// tick is a marked value of an axis.
type tick struct {
	at    float64
	label string
}

// extent is the axis over all values, which leaves room at its ends. A linear one begins at 0.
func extent(log bool, values ...float64) axis {
	a := axis{min: math.Inf(1), max: math.Inf(-1), log: log}
	for _, v := range values {
		if !log || v > 0 {
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	}
	switch {
	case a.min > a.max:
		a.min, a.max = 0.5, 1
	case log:
		room := math.Pow(a.max/a.min, 0.05) * 1.1
		a.min, a.max = a.min/room, a.max*room
	default:
		a.min, a.max = min(a.min, 0), max(a.max, 0)
		if a.min == a.max {
			a.max = 1
		}
		room := (a.max - a.min) * 0.06
		a.max += room
		if a.min < 0 {
			a.min -= room
		}
	}
	return a
}

// at is where a value lies, within the axis.
func (a axis) at(v float64) float64 {
	low, high := a.min, a.max
	v = min(max(v, low), high)
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks marks round values, about as many as wanted: steps of 1, 2 or 5 times a power of ten, so
// that 100 is among those of percent; decades if the axis is logarithmic.
func (a axis) ticks(wanted int) []tick {
	if a.log {
		return a.decades(wanted)
	}
	rough := (a.max - a.min) / float64(wanted)
	step := math.Pow10(int(math.Floor(math.Log10(rough))))
	for _, times := range []float64{1, 2, 5, 10} {
		if step*times >= rough {
			step *= times
			break
		}
	}
	var ticks []tick
	for n := int(math.Ceil(a.min/step - 1e-9)); float64(n)*step <= a.max*(1+1e-12); n++ {
		at := float64(n) * step
		ticks = append(ticks, tick{at, number(at)})
	}
	return ticks
}

// decades are powers of ten, and 2 and 5 times them where there are few.
func (a axis) decades(wanted int) []tick {
	first, last := math.Floor(math.Log10(a.min)), math.Ceil(math.Log10(a.max))
	times, every := []float64{1}, 1.0
	switch decades := math.Log10(a.max / a.min); {
	case decades < 2.5:
		times = []float64{1, 2, 5}
	case decades > float64(wanted):
		every = math.Ceil(decades / float64(wanted))
	}
	var ticks []tick
	for e := first; e <= last; e += every {
		for _, t := range times {
			if v := t * math.Pow(10, e); v >= a.min && v <= a.max {
				ticks = append(ticks, tick{v, number(v)})
			}
		}
	}
	return ticks
}

// number prints a value of an axis in full: 1 000 000, 0.05.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if rounded := strconv.FormatFloat(v, 'g', 6, 64); len(rounded) < len(text) && math.Abs(v) < 1e6 {
		text = rounded
	}
	if v != math.Trunc(v) {
		return text
	}
	return Group(text)
}

// Group puts a space between groups of three digits of a whole number with at least five.
func Group(digits string) string {
	if len(strings.TrimPrefix(digits, "-")) < 5 {
		return digits
	}
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}
