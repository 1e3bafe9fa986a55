package race

import (
	"runtime"
	"sync"
	"testing"
)

// bubbles counts the bubbles of time under way that OneProcessor looks after.
var bubbles struct {
	sync.Mutex
	n, procs int
}

// OneProcessor has the race detector watch a bubble of time on one processor, until the test ends.
// The runtime has one context of the detector for all timers of a bubble. Goroutines on two
// processors that receive from timers which are due already use it at the same time, and the
// process dies of SIGSEGV (Go 1.26).
func OneProcessor(tb testing.TB) {
	if !Enabled {
		return
	}
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.n++; bubbles.n == 1 {
		bubbles.procs = runtime.GOMAXPROCS(1)
	}
	tb.Cleanup(func() {
		bubbles.Lock()
		defer bubbles.Unlock()
		if bubbles.n--; bubbles.n == 0 {
			runtime.GOMAXPROCS(bubbles.procs)
		}
	})
}
