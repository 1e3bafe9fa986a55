package draw

import (
	"math"
	"slices"
	"testing"
	"time"
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

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		time.Hour: {"1h", "1h"}, 90 * time.Minute: {"1h30m", "1h30m"}, time.Minute: {"1m", "1m"},
		61 * time.Second: {"1m1s", "1m1s"}, 0: {"0s", "0s"}, 1500 * time.Microsecond: {"1.5ms", "1.5ms"},
		24*time.Hour + 31*time.Millisecond:            {"24h0m0.031s", "24h"},
		12345678 * time.Nanosecond:                    {"12.345678ms", "12.3ms"},
		12*time.Minute + 3*time.Second + 77*time.Hour: {"77h12m3s", "77h12m"},
		3881800 * time.Microsecond:                    {"3.8818s", "3.88s"},
		59996 * time.Millisecond:                      {"59.996s", "1m"},
		3599999 * time.Millisecond:                    {"59m59.999s", "1h"},
		1234567 * time.Nanosecond:                     {"1.234567ms", "1.23ms"},
		1234 * time.Nanosecond:                        {"1.234µs", "1µs"},
	} {
		if got := [2]string{Span(d), About(d)}; got != want {
			t.Errorf("Span and About of %d: %q, want %q", d, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int64]string{0: "0 shards", 1: "1 shard", 1200: "1,200 shards"} {
		if got := Plural(n, "shard"); got != want {
			t.Errorf("Plural(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{"mails": "mails", "": `""`, "a b": "a b", " a": `" a"`,
		"a\x1b[0m": `"a\x1b[0m"`,
		`a"b`:      `"a\"b"`, "é": "é"} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  []string
	}{
		{"short", 20, []string{"short"}},
		{"in use 1,250 of 3,000, free 250, the next in 1ms", 30,
			[]string{"in use 1,250 of 3,000,", "  free 250, the next in 1ms"}},
		{"one long word without any comma", 20, []string{"one long word witho…"}},
		{"██████", 3, []string{"██…"}},
		{"x", 0, []string{"…"}},
	} {
		if got := Fold(c.line, c.width); !slices.Equal(got, c.want) {
			t.Errorf("Fold(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}
