package draw

import (
	"math"
	"testing"
	"unicode/utf8"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part  float64
		width int
		want  string
	}{
		{0, 3, "   "}, {1, 3, "███"}, {0.5, 3, "█▌ "}, {0.5, 4, "██  "}, {2, 2, "██"}, {-1, 2, "  "},
		{math.NaN(), 2, "  "}, {math.Inf(1), 2, "██"}, {1, 0, ""}, {1, -1, ""}, {0.999, 2, "██"}, {1.0 / 16, 2, "▏ "},
	} {
		if got := Bar(c.part, c.width); got != c.want {
			t.Errorf("Bar(%v, %d) = %q, want %q", c.part, c.width, got, c.want)
		}
	}
	for i := range 1001 {
		if n := utf8.RuneCountInString(Bar(float64(i)/1000, 17)); n != 17 {
			t.Fatalf("Bar(%v, 17) takes %d columns", float64(i)/1000, n)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for part, want := range map[float64]string{0: "0.0 %", 1: "100.0 %", 0.98765: "98.7 %", 0.9999: "99.9 %",
		1.001: "100.1 %", math.Inf(1): "-"} {
		if got := Percent(part); got != want {
			t.Errorf("Percent(%v) = %q, want %q", part, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{{"abc", 2, "ab"}, {"ab", 2, "ab"}, {"██x", 2, "██"}, {"a\x1b[31mb\nc", 10, "a[31mbc"}, {"a", 0, ""}} {
		if got := Clip(c.in, c.width); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}
