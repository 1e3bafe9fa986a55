// Package spelling reads and writes the names of algorithms, modes and scopes as people type them,
// on a command line and in a file.
package spelling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// Algorithms are those that this version knows, by their names.
func Algorithms() map[string]shardlimit.Algorithm { return named(shardlimit.SlidingLog) }

// Modes are those that this version knows, by their names.
func Modes() map[string]shardlimit.Mode { return named(shardlimit.Enforced) }

// Scopes are those that this version knows, by their names.
func Scopes() map[string]shardlimit.Scope { return named(shardlimit.Global) }

// Of is a name as people read and type it, with dashes.
func Of(v fmt.Stringer) string { return strings.ReplaceAll(v.String(), "_", "-") }

// Names are those of what there is, in order.
func Names[T any](all map[string]T) []string { return slices.Sorted(maps.Keys(all)) }

// List is the names for people, in one line.
func List[T any](all map[string]T) string { return strings.Join(Names(all), ", ") }

// Find is what a name stands for, with dashes or underscores.
func Find[T any](all map[string]T, name string) (v T, known bool) {
	v, known = all[strings.ReplaceAll(name, "_", "-")]
	return v, known
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
