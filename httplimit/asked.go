package httplimit

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// pauseOf is the pause that an answer asks for.
func pauseOf(answer *http.Response, now time.Time) (pause time.Duration, asked bool) {
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if pause, asked = retryAfterOf(answer.Header, now); asked {
			return pause, true
		}
	}
	if cached(answer.Header) {
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
	n, _ := strconv.ParseInt(text, 10, 64) // of too many digits it is the most
	return n, true
}

// secondsOf is that many seconds, or the longest duration there is.
func secondsOf(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second
}

// inQuotes is a string of structured fields (RFC 9651), such as the name of a policy.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// exhausted returns the longest t in a RateLimit field, of the policies of which nothing remains.
// It leaves malformed parts of the field out.
func exhausted(field string) (longest time.Duration) {
	for policy := range strings.SplitSeq(inQuotes.ReplaceAllString(field, "name"), ",") {
		left, reset := int64(1), int64(0)
		for parameter := range strings.SplitSeq(policy, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			n, whole := wholeNumber(value)
			switch {
			case name == "r" && whole:
				left = n
			case name == "t" && whole:
				reset = n
			}
		}
		if left == 0 {
			longest = max(longest, secondsOf(reset))
		}
	}
	return longest
}
