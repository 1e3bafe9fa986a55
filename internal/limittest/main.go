// Package limittest is what the tests of shardlimit share: fleets of nodes and processes, real,
// emulated, or in simulated time; traffic and what it was granted; and a look inside of a limiter.
package limittest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// Main runs the tests of a package. More of them run side by side than there are processors, unless
// -parallel says how many: those that may do so wait for windows and round trips most of the time.
func Main(m *testing.M) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return m.Run()
}
