package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pauseOf is the pause that an answer asks for.
func pauseOf(answer *http.Response, now time.Time, ignoreRateLimit bool) (pause time.Duration, asked bool) {
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if pause, asked = retryAfterOf(answer.Header, now); asked {
			return pause, true
		}
	}
	if ignoreRateLimit || cached(answer.Header) {
		return 0, false
	}
	pause = exhausted(strings.Join(answer.Header[rateLimit], ","))
	return pause, pause > 0
}

// cached reports whether an answer comes from a cache, so that what it tells of a limit is old.
func cached(h http.Header) bool {
	age, ok := wholeNumber(strings.TrimSpace(h.Get("Age")))
	return ok && age > 0
}

// retryAfterOf reads Retry-After: seconds, or a date by the clock of the server if it tells that.
func retryAfterOf(h http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get(retryAfter))
	if n, ok := wholeNumber(text); ok {
		return secondsOf(n), true
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(until.Sub(now), 0), true
}

// wholeNumber reads digits; of more than an int64 holds, the most it does.
func wholeNumber(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// secondsOf is that many seconds, or the longest duration there is.
func secondsOf(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second
}

// exhausted is the longest t in a RateLimit field of the policies of which nothing remains. A
// malformed field is ignored as a whole.
func exhausted(field string) (longest time.Duration) {
	f := &fieldReader{rest: strings.Trim(field, " ")}
	for f.rest != "" {
		f.bare()
		left, reset := int64(1), int64(0)
		for f.take(";") {
			f.rest = strings.TrimLeft(f.rest, " ")
			name := f.span(func(c byte) bool {
				return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-.*", c) >= 0
			})
			value := "?1"
			if f.take("=") {
				value = f.bare()
			}
			n, whole := wholeNumber(value)
			switch {
			case name == "":
				return 0
			case name == "r" && whole:
				left = n
			case name == "t" && whole:
				reset = n
			}
		}
		if left == 0 {
			longest = max(longest, secondsOf(reset))
		}
		f.rest = strings.TrimLeft(f.rest, " \t")
		if f.bad || f.rest != "" && !f.take(",") {
			return 0
		}
		f.rest = strings.TrimLeft(f.rest, " \t")
	}
	return longest
}

// fieldReader reads what RateLimit has of structured fields (RFC 9651).
type fieldReader struct {
	rest string
	bad  bool
}

func (f *fieldReader) take(prefix string) (found bool) {
	f.rest, found = strings.CutPrefix(f.rest, prefix)
	return found
}

// span takes the bytes that belong.
func (f *fieldReader) span(belongs func(c byte) bool) string {
	n := 0
	for n < len(f.rest) && belongs(f.rest[n]) {
		n++
	}
	word := f.rest[:n]
	f.rest = f.rest[n:]
	return word
}

// bare takes a bare item as it is written: a string, a token, a number, bytes or a boolean.
func (f *fieldReader) bare() string {
	if f.take(`"`) {
		for i := 0; i < len(f.rest); i++ {
			switch f.rest[i] {
			case '\\':
				i++
			case '"':
				f.rest = f.rest[i+1:]
				return `"`
			}
		}
		f.bad, f.rest = true, ""
		return ""
	}
	word := f.span(func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(`;,"()<>@[]{}\`, c) < 0 })
	f.bad = f.bad || word == ""
	return word
}
