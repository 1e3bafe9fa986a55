package script

import "fmt"

// Algorithm says how a shard counts permits. Each has a Lua part of the same name.
type Algorithm uint8

const (
	// AlgorithmSlidingLog admits at most the share in every window, wherever it begins, and dates
	// every grant; where these are many, to within a 128th of the window, late and never early.
	AlgorithmSlidingLog Algorithm = iota
	// AlgorithmSlidingCounter admits at most the share in every window, wherever it begins, and
	// keeps at most 17 entries for it. The price: a permit may come back up to a sixteenth of the
	// window late, never early.
	AlgorithmSlidingCounter
	// AlgorithmFixedWindow admits at most the share in each window of the node's clock; windows
	// begin at multiples of their length since 1970 UTC. An interval of one window's length that
	// lies across an edge can see twice the share.
	AlgorithmFixedWindow
	// AlgorithmTokenBucket gains the share per window, continuously, up to the burst. In any time t
	// it admits at most burst + share*t/window.
	AlgorithmTokenBucket
	// AlgorithmLeakyBucket lets permits act one at a time, window/share apart, and queues up to the
	// burst of them. In any time t at most 1 + share*t/window act.
	AlgorithmLeakyBucket
	algorithms
)

// AlgorithmNames are the names under which records hold the algorithms, in their order.
var AlgorithmNames = [algorithms]string{"sliding_log", "sliding_counter", "fixed_window", "token_bucket",
	"leaky_bucket"}

// String returns the name under which the algorithm is stored and reported.
func (a Algorithm) String() string {
	if a < algorithms {
		return AlgorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// Bursty reports whether the algorithm has a burst.
func (a Algorithm) Bursty() bool { return a == AlgorithmTokenBucket || a == AlgorithmLeakyBucket }

// letters tell the keys of the algorithms apart, and begin the strings under them.
var letters = [algorithms]string{"l", "c", "w", "k", "y"}
