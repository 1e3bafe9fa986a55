// Package chance is what goes another way each time a process runs: its random numbers, and which
// goroutine goes first. A test that seeds it can play the same again.
package chance

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// seeded is a source that several goroutines draw from.
type seeded struct {
	mu     sync.Mutex
	source *rand.Rand
}

// source is nil unless a test has seeded it.
var source atomic.Pointer[seeded]

// Seed makes all numbers depend on the seed alone, until end is called. It is for tests that play
// something again, in a process where nothing else draws.
func Seed(seed uint64) (end func()) {
	source.Store(&seeded{source: rand.New(rand.NewPCG(seed, seed))})
	return func() { source.Store(nil) }
}

// Uint64 returns a random number.
func Uint64() uint64 {
	s := source.Load()
	if s == nil {
		return rand.Uint64()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// N returns a random number from 0 to below n, which must be positive.
func N[T ~int | ~int64 | ~uint64](n T) T {
	s := source.Load()
	if s == nil {
		return rand.N(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return T(s.source.Uint64N(uint64(n)))
}

// Yield lets other goroutines run first: some of them, or in the simulated time of a test that has
// seeded the numbers, all that can.
func Yield() {
	if source.Load() == nil {
		runtime.Gosched()
		return
	}
	time.Sleep(time.Nanosecond)
}
