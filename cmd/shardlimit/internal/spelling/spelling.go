// Package spelling reads and writes limits as people type them, on a command line and in a file.
package spelling

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

// Algorithms are those that this version knows, by their names.
func Algorithms() map[string]shardlimit.Algorithm { return named(shardlimit.SlidingLog) }

// Modes are those that this version knows, by their names.
func Modes() map[string]shardlimit.Mode { return named(shardlimit.Enforced) }

// Of is a name as people read and type it, with dashes.
func Of(v fmt.Stringer) string { return strings.ReplaceAll(v.String(), "_", "-") }

// List is the names for people, in one line.
func List[T any](all map[string]T) string { return strings.Join(slices.Sorted(maps.Keys(all)), ", ") }

// Find is what a name stands for, with dashes or underscores.
func Find[T any](all map[string]T, name string) (v T, err error) {
	v, known := all[strings.ReplaceAll(name, "_", "-")]
	if !known {
		return v, fmt.Errorf("%q is none of %s", name, List(all))
	}
	return v, nil
}

// Fields are what Set knows of a limit, in the order in which they are to be set.
var Fields = []string{"rate", "algorithm", "mode", "burst", "lease", "shards", "revision"}

// Set has one of the Fields of a limit, or its "scope", be what a text says. Another algorithm
// takes burst and lease away, which mean nothing to it. The error begins with the field.
func Set(l *shardlimit.Limit, field, text string) (err error) {
	var n int64
	switch field {
	case "rate":
		var r Rate
		r, err = ParseRate(text)
		l.Permits, l.Per = r.Permits, r.Per
	case "algorithm":
		before := l.Algorithm
		if l.Algorithm, err = Find(Algorithms(), text); l.Algorithm != before {
			l.Burst, l.Lease = 0, 0
		}
	case "mode":
		l.Mode, err = Find(Modes(), text)
	case "scope":
		l.Scope, err = Find(named(shardlimit.Global), text)
	case "lease":
		l.Lease, err = time.ParseDuration(text)
	case "burst":
		l.Burst, err = whole(text)
	case "revision":
		l.Revision, err = whole(text)
	case "shards":
		n, err = whole(text)
		l.Shards = int(n)
	default:
		err = errors.New("there is no such field")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", field, err)
	}
	return err
}

func whole(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text != strconv.FormatInt(n, 10) {
		err = fmt.Errorf("%q is not a whole number such as 8", text)
	}
	return n, err
}

// named counts on from the first until there is no more: what there is not has no name of its own.
func named[T interface {
	~uint8
	fmt.Stringer
}](first T) map[string]T {
	all := map[string]T{}
	for v := first; !strings.Contains(v.String(), "("); v++ {
		all[Of(v)] = v
	}
	return all
}

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

// ParseRate reads NUMBER/TIME. NUMBER is a whole number from 1. TIME is a unit (ms, s, m, h, d), a
// whole number of days (7d), or a duration as Go writes it (10s, 100ms, 1m30s).
// Whether a limiter accepts the rate is for the limiter to say; the error texts
// of ParseRate say what to write instead.
func ParseRate(s string) (Rate, error) {
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

// String writes the rate in the shortest form that ParseRate reads back: 500/s,
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
