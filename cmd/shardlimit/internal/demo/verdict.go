package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Verdict is what the history of a demo shows.
type Verdict struct {
	Window      time.Duration
	Admitted    int64
	Errors      int64
	Failure     error   // one of the errors, nil without any
	Utilisation float64 // of what the limit allowed; 0 if the demo was too short to tell
	findings    []finding
	parts       []part // empty if the demo was too short to tell
}

func (s *stage) verdict() Verdict {
	window, accounts := s.config.Rate.Per, s.fleet.accounts(s.config.Rate.Per)
	var ops []history.Op
	for _, a := range accounts {
		ops = append(ops, a.got...)
	}
	return Verdict{
		Window:      window,
		Admitted:    history.Total(ops),
		Errors:      s.fleet.errors(),
		Failure:     s.fleet.failure(),
		Utilisation: utilisation(window, s.phases, ops),
		findings:    judge(window, s.phases, ops),
		parts:       parts(window, s.phases, accounts),
	}
}

// OK reports whether the limit was never exceeded.
func (v Verdict) OK() bool {
	for _, f := range v.findings {
		if !f.ok {
			return false
		}
	}
	return true
}

// String is the verdict in a few lines.
func (v Verdict) String() string {
	var b strings.Builder
	b.WriteString(partTable(v.parts))
	for _, f := range v.findings {
		word := "never over"
		if !f.ok {
			word = "OVER THE LIMIT"
		}
		fmt.Fprintf(&b, "limit %-12s most in any window %s of %s (%s): %s\n",
			rate.Rate{Permits: f.limit, Per: v.Window},
			draw.Count(f.busiest.Permits), draw.Count(f.limit),
			draw.Percent(float64(f.busiest.Permits)/float64(f.limit)), word)
	}
	fmt.Fprintf(&b, "admitted %s", draw.Plural(v.Admitted, "permit"))
	if v.Utilisation > 0 {
		fmt.Fprintf(&b, ", %s of what the limit allowed", draw.Percent(v.Utilisation))
	}
	fmt.Fprintf(&b, "; %s\n", draw.Plural(v.Errors, "error"))
	if v.Failure != nil {
		fmt.Fprintf(&b, "for example: %v\n", v.Failure)
	}
	return b.String()
}

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

// utilisation returns the part of what the limit allowed that was admitted, over the consecutive
// windows that fit between the end of each change and the beginning of the next. The share of a
// node that is away does not count as allowed. The result is 0 if no window fits.
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
