// Package draw turns numbers into text for people.
package draw

import (
	"math"
	"strconv"
	"strings"
	"time"
)

var eighths = []rune(" ▏▎▍▌▋▊▉")

// Bar draws part (0 to 1; other values are drawn as the nearer of these) as a
// bar that takes exactly width columns, in steps of an eighth of a column.
func Bar(part float64, width int) string {
	if width <= 0 {
		return ""
	}
	steps := int(math.Round(min(max(part, 0), 1) * float64(width*8)))
	full, more := steps/8, steps%8
	bar := strings.Repeat("█", full)
	if more > 0 {
		bar += string(eighths[more])
		full++
	}
	return bar + strings.Repeat(" ", width-full)
}

// Count writes a whole number with commas between thousands.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Percent writes a part of 1 in percent with one decimal, rounded down, so that
// 100.0 % is never less than all.
func Percent(part float64) string {
	return strconv.FormatFloat(math.Floor(part*1000+1e-9)/10, 'f', 1, 64) + " %"
}

// Clip shortens a line to width columns, counting a rune as one. Control
// characters are left out, so that nothing can break out of its line.
func Clip(s string, width int) string {
	shown := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s))
	return string(shown[:max(0, min(len(shown), width))])
}

// Span writes a length of time without parts that are zero: 1h, not 1h0m0s.
func Span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// About is Span, rounded: to three digits below a minute, to seconds below an hour, else to
// minutes.
func About(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return Span(d.Round(time.Minute))
	case d >= time.Minute:
		return Span(d.Round(time.Second))
	}
	step := time.Microsecond
	for d/step >= 1000 {
		step *= 10
	}
	return Span(d.Round(step))
}

// Plural writes how many there are of something, whose name with an s is that of several.
func Plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(n) + " " + thing + "s"
}

// Name makes a name that came from outside fit for a line: it is quoted if it has characters that
// are not shown as they are, or spaces at its ends.
func Name(s string) string {
	quoted := strconv.Quote(s)
	if s == "" || quoted[1:len(quoted)-1] != s || strings.TrimSpace(s) != s {
		return quoted
	}
	return s
}
