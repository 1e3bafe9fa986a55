// Package limittest is what the tests of shardlimit share: fleets of nodes and processes, real,
// emulated, or in simulated time; traffic and what it was granted; and a look inside of a limiter.
package limittest

import (
	"context"
	"flag"
	"runtime"
	"strconv"
	"testing"
	"time"
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

// Patience is how long a test waits for what must come by itself, before it fails.
const Patience = 2 * time.Minute

// AwaitWithin polls for at most so long; seen, if given, tells what was there instead. Between two
// looks it rests for a sixteenth of what it has waited, which spares the processor.
func AwaitWithin(tb testing.TB, most time.Duration, what string, holds func() bool, seen ...func() string) {
	tb.Helper()
	for begun := time.Now(); !holds(); {
		waited := time.Since(begun)
		if waited > most {
			for _, tell := range seen {
				what += ": " + tell()
			}
			tb.Fatalf("after %s still not: %s", most, what)
		}
		time.Sleep(min(max(waited/16, time.Millisecond), 100*time.Millisecond))
	}
}

// AwaitThat polls until the condition holds.
func AwaitThat(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	AwaitWithin(tb, Patience, what, holds)
}

// Pause waits as long as it was told to, and reports false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
