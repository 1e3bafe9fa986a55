// Package striped has numbers that all cores change at once: each is divided into stripes, so that
// cores do not wait for each other.
package striped

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// mostStripes is into how many stripes a number is divided at the most.
const mostStripes = 64

// stripesFor is into how many stripes a number is divided that every core
// changes with every call, because cores that change one cache line wait for each
// other: a power of two, and about two for each core, so that two seldom meet in one.
func stripesFor(cores int) int {
	if cores == 1 {
		return 1
	}
	return min(1<<bits.Len(uint(2*cores-1)), mostStripes)
}

// home tells a caller with which stripe to begin: this number, modulo their count.
type home int

// homes keeps a home for each core: what a sync.Pool gives is, as a rule, what was put there last
// on the same core.
var homes = sync.Pool{New: func() any { return &everyHome[nextHome.Add(1)%mostStripes] }}

var nextHome atomic.Uint32

// everyHome is all homes there are, so that going to another one makes nothing.
var everyHome = func() (all [mostStripes]home) {
	for i := range all {
		all[i] = home(i)
	}
	return all
}()
