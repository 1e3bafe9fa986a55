package spelling

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Rate
		text string // as String writes it
	}{
		{" 500 / s ", Rate{500, time.Second}, "500/s"},
		{"3/ms", Rate{3, time.Millisecond}, "3/ms"},
		{"9/d", Rate{9, day}, "9/d"},
		{"9/7d", Rate{9, 7 * day}, "9/7d"},
		{"100/10s", Rate{100, 10 * time.Second}, "100/10s"},
		{"1/1m30s", Rate{1, 90 * time.Second}, "1/1m30s"},
		{"1/120s", Rate{1, 2 * time.Minute}, "1/2m"},
		{"1/90m", Rate{1, 90 * time.Minute}, "1/1h30m"},
		{"9223372036854775807/s", Rate{1<<63 - 1, time.Second}, "9223372036854775807/s"},
	} {
		got, err := ParseRate(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", c.in, got, err, c.want)
		}
		if got.String() != c.text {
			t.Errorf("ParseRate(%q).String() = %q, want %q", c.in, got.String(), c.text)
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"500", "no slash"},
		{"1.5/s", "not a whole number"},
		{"_5/s", "not a whole number"},
		{"0/s", "the mode closed lets nothing through, off everything"},
		{"9223372036854775808/s", "too large"},
		{"5/", "not a time"},
		{"5/0d", "not a time"},
		{"5/10", "not a time"},
		{"5/0s", "not a time"},
		{"5/-1s", "not a time"},
	} {
		got, err := ParseRate(c.in)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ParseRate(%q) = %v, %v; want an error that says %q", c.in, got, err, c.says)
		}
	}
}

// FuzzParseRate: whatever is read is valid and survives being written and read again.
func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"500/s", "50/10s", "1/1h1m1s", "1/99999d", "7/0.5s", "1/1us", "/", "1/ms "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		if r.Permits < 1 || r.Per <= 0 {
			t.Fatalf("ParseRate(%q) = %+v", s, r)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("ParseRate(%q) = %+v, written %q, read %+v, %v", s, r, r.String(), again, err)
		}
	})
}

func ExampleParseRate() {
	r, err := ParseRate("5000/s")
	fmt.Println(r, r.Permits, r.Per, err)
	_, err = ParseRate("5000")
	fmt.Println(err)
	// Output:
	// 5000/s 5000 1s <nil>
	// rate "5000" has no slash; write it as NUMBER/TIME, for example 500/s, 30/m, 1000/h, 100/10s or 20/100ms
}
