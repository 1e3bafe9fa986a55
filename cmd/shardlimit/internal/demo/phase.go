package demo

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// phase is a stretch of the demo under one limit. All times are in ns by history.Now.
type phase struct {
	text  string // what began it
	limit int64  // permits per window
	away  int64  // permits of the limit that are on nodes that are away

	asked int64 // when the change that began it was begun
	done  int64 // when that change was complete
	until int64 // when the change that ended it was begun
}

// finding is what the checker says about a stretch in which no window may hold
// more than limit permits.
type finding struct {
	limit   int64
	busiest history.Window
	ok      bool
}

// judge checks every window against the limit that held in it. A lowered limit
// holds in every window that begins after the change was complete, a raised one
// in every window that ends after the change was begun; so for every limit, the
// windows inside the widest stretch of phases that do not exceed it must keep to
// it. There is one finding for each different stretch, in order of the limits,
// largest first.
func judge(window time.Duration, phases []phase, ops []history.Op) []finding {
	var found []finding
	seen := map[[2]int64]bool{}
	for i, p := range phases {
		from, to := i, i
		for from > 0 && phases[from-1].limit <= p.limit {
			from--
		}
		for to < len(phases)-1 && phases[to+1].limit <= p.limit {
			to++
		}
		begin, end := phases[from].done, phases[to].until
		if seen[[2]int64{begin, end}] {
			continue
		}
		seen[[2]int64{begin, end}] = true
		inside := slices.DeleteFunc(slices.Clone(ops),
			func(op history.Op) bool { return op.Start < begin || op.End > end })
		busiest, ok := history.Check(window, p.limit, inside)
		found = append(found, finding{p.limit, busiest, ok})
	}
	slices.SortStableFunc(found, func(a, b finding) int { return int(b.limit - a.limit) })
	return found
}

// utilisation is the part of what the limit allowed that was admitted, over the
// windows that fit between the changes: consecutive ones from the end of each
// change to the beginning of the next. What a node that is away has of the limit
// does not count as allowed. It is 0 if no window fits.
func utilisation(window time.Duration, phases []phase, ops []history.Op) float64 {
	var admitted, allowed int64
	for _, p := range phases {
		for _, n := range history.PerWindow(window, p.done, p.until, ops) {
			admitted += n
			allowed += p.limit - p.away
		}
	}
	if allowed == 0 {
		return 0
	}
	return float64(admitted) / float64(allowed)
}
