// Package rate reads and writes rates as people type them: 500/s, 100/10s.
package rate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

// Rate is a number of permits in any window of a length.
type Rate struct {
	Permits int64         // at least 1
	Per     time.Duration // more than 0
}

const grammar = "write it as NUMBER/TIME, for example 500/s, 30/m, 1000/h, 100/10s or 20/100ms"

// day is not a unit of time.ParseDuration because days can have 23 hours;
// a window never has.
const day = 24 * time.Hour

// letters are those of units. One may stand alone after the slash.
const letters = "nuµmshd"

// Parse reads NUMBER/TIME. NUMBER is a whole number from 1. TIME is a unit (ms, s, m, h, d), a whole
// number of days (7d), or a duration as Go writes it (10s, 100ms, 1m30s).
// Whether a limiter accepts the rate is for the limiter to say; the error texts
// of Parse say what to write instead.
func Parse(s string) (Rate, error) {
	number, per, found := strings.Cut(strings.TrimSpace(s), "/")
	if !found {
		return Rate{}, fmt.Errorf("rate %q has no slash; %s", s, grammar)
	}
	permits, err := parseNumber(strings.TrimSpace(number))
	if err != nil {
		return Rate{}, fmt.Errorf("rate %q: %w", s, err)
	}
	window, err := parseWindow(strings.TrimSpace(per))
	if err != nil {
		return Rate{}, fmt.Errorf("rate %q: %w", s, err)
	}
	return Rate{Permits: permits, Per: window}, nil
}

func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large a number", s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number; %s", s, grammar)
	case n < 1:
		return 0, errors.New("the number must be at least 1; the mode closed lets nothing through, off everything")
	}
	return n, nil
}

func parseWindow(s string) (time.Duration, error) {
	text := s
	if strings.Trim(s, letters) == "" {
		text = "1" + s
	}
	d, err := time.ParseDuration(text)
	if digits, days := strings.CutSuffix(text, "d"); days {
		var n uint64
		n, err = strconv.ParseUint(digits, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time; %s", s, grammar)
	}
	return d, nil
}

// String writes the rate in the shortest form that Parse reads back: 500/s,
// 100/10s, 1/1m30s.
func (r Rate) String() string {
	n := strconv.FormatInt(r.Permits, 10)
	per := draw.Span(r.Per)
	if r.Per > 0 && r.Per%day == 0 {
		per = strconv.FormatInt(int64(r.Per/day), 10) + "d"
	}
	if unit, one := strings.CutPrefix(per, "1"); one && strings.Trim(unit, letters) == "" {
		per = unit
	}
	return n + "/" + per
}
