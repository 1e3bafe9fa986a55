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
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
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

// Set has one of the Fields of a limit, or its "scope", be what a text says. Another algorithm takes
// burst and lease away, which mean nothing to it. The error begins with the field.
func Set(l *shardlimit.Limit, field, text string) (err error) {
	var n int64
	switch field {
	case "rate":
		var r rate.Rate
		r, err = rate.Parse(text)
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
	if err != nil {
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
