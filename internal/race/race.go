// Package race tells tests whether the race detector watches them.
package race

import "flag"

var walks = flag.Uint("walks", 1, "repeat random walks and simulations so many times as often")

// Some returns n, but a part of it, at least 1, if the race detector watches: how often to repeat what only one goroutine does. The detector
// finds nothing in that and makes it take some eight times as long, so go test without it plays all of them. The flag -walks multiplies n.
//
// What needs a real server has WithRedis, OnAServer or OnServers in its name: by that .ci/run finds what it is to play without the detector, too.
func Some[N ~int | ~int64 | ~uint64](n N) N {
	n *= N(*walks)
	if Enabled {
		return max(n/8, 1)
	}
	return n
}

// FewerDraws has the properties of rapid drawn less often, likewise, unless the command line says how often. It is for an init function of tests.
func FewerDraws() {
	if Enabled {
		if err := flag.Set("rapid.checks", "12"); err != nil {
			panic(err)
		}
	}
}
