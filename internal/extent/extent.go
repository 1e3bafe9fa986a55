// Package extent tells tests how much to play: a part of the long walks and simulations, or all.
package extent

import (
	"flag"
	"os"

	"github.com/shardlimit/shardlimit/internal/race"
)

var walks = flag.Uint("walks", 1, "repeat random walks and simulations so many times as often")

// Full says that long walks and simulations are played in full: SHARDLIMIT_FULL is 1, and the race
// detector does not watch. It finds nothing in what one goroutine does, and makes that take some
// eight times as long.
var Full = os.Getenv("SHARDLIMIT_FULL") == "1" && !race.Enabled

// Some returns how often to repeat what is repeated n times in full: n, or an eighth of it, but at
// least once. The flag -walks multiplies n.
func Some[N ~int | ~int64 | ~uint64](n N) N {
	n *= N(*walks)
	if Full {
		return n
	}
	return max(n/8, 1)
}

// Plays reports whether case i of a list is played: each is, but only every fourth if the race
// detector watches. It is for cases that differ in what happens, not in what runs at the same time.
func Plays(i int) bool { return !race.Enabled || i%4 == 0 }

// Fewer returns how many of n alike things take part: all, but a quarter if the race detector
// watches.
func Fewer(n int) int {
	if race.Enabled {
		return max(n/4, 2)
	}
	return n
}

// FewerDraws has the properties of rapid drawn less often if the race detector watches, unless the
// command line says how often. It is for an init function of tests.
func FewerDraws() {
	if race.Enabled {
		if err := flag.Set("rapid.checks", "12"); err != nil {
			panic(err)
		}
	}
}
