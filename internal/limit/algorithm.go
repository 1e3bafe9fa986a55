package limit

import (
	"math"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
)

// Algorithm says how permits are counted, see shardlimit.Algorithm.
type Algorithm uint8

// The algorithms, as scripts number them.
const (
	SlidingLog     = Algorithm(script.AlgorithmSlidingLog)
	SlidingCounter = Algorithm(script.AlgorithmSlidingCounter)
	FixedWindow    = Algorithm(script.AlgorithmFixedWindow)
	TokenBucket    = Algorithm(script.AlgorithmTokenBucket)
	LeakyBucket    = Algorithm(script.AlgorithmLeakyBucket)
	Algorithms     = LeakyBucket + 1
)

var algorithmNames = names{register.SlidingLog, register.SlidingCounter, register.FixedWindow,
	register.TokenBucket, register.LeakyBucket}

// String returns the name under which the algorithm is stored and reported.
func (a Algorithm) String() string { return algorithmNames.of(uint8(a), "algorithm") }

// AlgorithmNamed returns the algorithm of that name.
func AlgorithmNamed(name string) (Algorithm, error) {
	a, err := algorithmNames.find(name, "algorithm")
	return Algorithm(a), err
}

// Bursty reports whether the algorithm has a Burst.
func (a Algorithm) Bursty() bool { return a == TokenBucket || a == LeakyBucket }

// Most returns how many permits can be granted at once at the most.
func (l Limit) Most() int64 {
	if l.Algorithm.Bursty() && l.Burst > 0 {
		return l.Burst
	}
	return l.Permits
}

// Soonest returns the least time in which so many permits can be granted, or for LeakyBucket act,
// whatever was used before.
func (l Limit) Soonest(permits int64) time.Duration {
	windows := (permits - 1) / l.Permits
	switch l.Algorithm {
	case FixedWindow: // of which one may end, and one begin, at once
		windows = max(windows-1, 0)
	case TokenBucket, LeakyBucket:
		at := float64(permits-l.Most()) / float64(l.Permits) * float64(l.Per)
		return time.Duration(min(max(at, 0), math.MaxInt64/2))
	}
	if windows > int64(math.MaxInt64/2/l.Per) {
		return math.MaxInt64 / 2
	}
	return time.Duration(windows) * l.Per
}

// Memory returns for how long something that was granted can still count.
func (l Limit) Memory() time.Duration {
	if l.Algorithm.Bursty() {
		return 2*l.Per + time.Duration(float64(l.Most())/float64(l.Permits)*float64(l.Per))
	}
	return l.Per + l.Lease
}
