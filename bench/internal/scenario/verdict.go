package scenario

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// verdict is how a history of admitted permits keeps to a limit and uses it.
type verdict struct {
	most  float64 // permits in the busiest window over the limit; above 1 the limit was broken
	mean  float64 // admitted over the limit, per window, on average
	least float64 // and in the window with the fewest
}

// judge looks for the busiest of all windows, and counts in consecutive windows,
// of which it leaves out the first: an empty log admits it at once.
func judge(window time.Duration, permits int64, windows int, ops []history.Op) verdict {
	first, _ := history.Span(ops)
	begin := first + int64(window)
	counts := history.PerWindow(window, begin, begin+int64(windows)*int64(window), ops)
	v := verdict{
		most: float64(history.Busiest(window, ops).Permits) / float64(permits),
		mean: history.Utilisation(permits, counts),
	}
	if len(counts) > 0 {
		v.least = float64(slices.Min(counts)) / float64(permits)
	}
	return v
}

// ideal is what a single sliding log would admit of calls that arrive at these
// instants and take no time: nobody who keeps the limit can admit more at once.
func ideal(window time.Duration, permits int64, arrivals []time.Duration) []history.Op {
	var ops []history.Op
	for _, at := range arrivals {
		if n := int64(len(ops)); n >= permits && int64(at)-ops[n-permits].End < int64(window) {
			continue
		}
		ops = append(ops, history.Op{Start: int64(at), End: int64(at), Permits: 1})
	}
	return ops
}
