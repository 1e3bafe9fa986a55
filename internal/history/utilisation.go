package history

import (
	"fmt"
	"time"
)

// maxWindows keeps a mistaken span from taking all memory.
const maxWindows = 10_000_000

// PerWindow counts the permits in the consecutive windows from, from+window and
// so on, as many as lie wholly before to. A call's permits count where the call
// ends, so that each counts once; permits outside from..to are left out. It
// panics like Busiest.
//
// These counts tell how well a limit was used. They are no evidence of a limit
// exceeded: a call that ends in a window may have been admitted before it.
func PerWindow(window time.Duration, from, to int64, ops []Op) []int64 {
	if window <= 0 || from < 0 || (to-from)/int64(max(window, 1)) > maxWindows {
		panic(fmt.Sprintf("history: windows of %v from %d to %d", window, from, to))
	}
	Total(ops)
	if to < from {
		return nil
	}
	counts := make([]int64, (to-from)/int64(window))
	for _, op := range ops {
		if op.End < from {
			continue
		}
		if i := (op.End - from) / int64(window); i < int64(len(counts)) {
			counts[i] += op.Permits
		}
	}
	return counts
}

// Utilisation is the part of limit permits per window that was used on average
// over the windows counted by PerWindow: 1 is all of it. It is 0 without windows
// or for a limit that is not positive.
func Utilisation(limit int64, counts []int64) float64 {
	if len(counts) == 0 || limit <= 0 {
		return 0
	}
	var sum float64
	for _, n := range counts {
		sum += float64(n)
	}
	return sum / float64(limit) / float64(len(counts))
}
