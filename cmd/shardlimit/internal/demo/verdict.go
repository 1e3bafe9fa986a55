package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/maxmin"
)

const (
	// windows that are left out of the judgement after a change: a newcomer is at its part in two,
	// and so is everybody after permits came back together
	settling      = 2
	fairIndex     = 0.99 // of Jain, from which the division is called fair,
	fairLeastPart = 0.95 // if nobody has less of its part,
	inUse         = 0.98 // and all together have so much of theirs
)

// Verdict is what the history of a demo shows.
type Verdict struct {
	Window   time.Duration
	Admitted int64
	Errors   int64
	Failure  error // one of the errors, nil without any
	findings []finding
	parts    []part // empty if the demo was too short to tell
}

func (s *stage) verdict() Verdict {
	v := Verdict{Window: s.config.Rate.Per}
	var ops []history.Op
	all := make([]part, len(s.workers))
	for i, w := range s.workers {
		all[i] = part{name: w.name, want: w.want, ops: w.got.Ops()}
		ops = append(ops, all[i].ops...)
		v.Errors += w.errors.Load()
		if err := w.failure.Load(); err != nil {
			v.Failure = *err
		}
	}
	v.Admitted, v.findings = history.Total(ops), judge(v.Window, s.phases, ops)
	if divide(v.Window, s.phases, all) {
		v.parts = all
	}
	return v
}

// OK reports whether the limit was never exceeded.
func (v Verdict) OK() bool {
	return !slices.ContainsFunc(v.findings, func(f finding) bool { return !f.ok })
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
			spelling.Rate{Permits: f.limit, Per: v.Window},
			draw.Count(f.busiest.Permits), draw.Count(f.limit),
			draw.Percent(float64(f.busiest.Permits)/float64(f.limit)), word)
	}
	fmt.Fprintf(&b, "admitted %s", draw.Plural(v.Admitted, "permit"))
	if len(v.parts) > 0 {
		fmt.Fprintf(&b, ", %s of what the limit allowed", draw.Percent(divisionOf(v.parts).all))
	}
	fmt.Fprintf(&b, "; %s\n", draw.Plural(v.Errors, "error"))
	if v.Failure != nil {
		fmt.Fprintf(&b, "for example: %v\n", v.Failure)
	}
	return b.String()
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
// windows inside the stretch of phases that do not exceed it must keep to it.
// The limit falls and rises once, so there is one such stretch of each. The
// largest limit comes first.
func judge(window time.Duration, phases []phase, ops []history.Op) (found []finding) {
	limits := make([]int64, len(phases))
	for i, p := range phases {
		limits[i] = -p.limit
	}
	slices.Sort(limits)
	for _, limit := range slices.Compact(limits) {
		low := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return p.limit > -limit })
		begin, end := low[0].done, low[len(low)-1].until
		inside := slices.DeleteFunc(slices.Clone(ops),
			func(op history.Op) bool { return op.Start < begin || op.End > end })
		busiest, ok := history.Check(window, -limit, inside)
		found = append(found, finding{-limit, busiest, ok})
	}
	return found
}

// part is a worker, and what it wanted, was entitled to and got in the windows that are judged.
type part struct {
	name                  string
	want                  int64 // permits a window
	ops                   []history.Op
	wanted, entitled, got int64
}

// ratio is how much of its part a worker has. Of one that is entitled to nothing it means nothing.
func (p part) ratio() float64 { return float64(p.got) / float64(max(p.entitled, 1)) }

// entitled divides the permits of a window among workers that want so many each, by max-min
// fairness.
func entitled(permits int64, wants []int64) []int64 {
	claims := make([]maxmin.Claim, len(wants))
	for i, want := range wants {
		claims[i] = maxmin.Claim{Demand: want, Weight: 1}
	}
	return maxmin.Shares(nil, permits, claims)
}

// divide sums up for each worker the whole windows that are judged, and reports whether there are
// any. The share of a node that is away is nobody's.
func divide(window time.Duration, phases []phase, all []part) (judged bool) {
	wants := make([]int64, len(all))
	for i, p := range all {
		wants[i] = p.want
	}
	for _, p := range phases {
		shares := entitled(p.limit-p.away, wants)
		for i := range all {
			w := &all[i]
			for _, got := range history.PerWindow(window, p.done+settling*int64(window), p.until, w.ops) {
				judged = true
				w.wanted, w.entitled, w.got = w.wanted+w.want, w.entitled+shares[i], w.got+got
			}
		}
	}
	return judged
}

// division is how evenly workers have what they are entitled to.
type division struct{ jain, least, all float64 }

func divisionOf(workers []part) division {
	var ratios []float64
	var sum part
	for _, p := range workers {
		if p.entitled > 0 {
			ratios = append(ratios, p.ratio())
		}
		sum.got, sum.entitled = sum.got+p.got, sum.entitled+p.entitled
	}
	if len(ratios) == 0 {
		return division{jain: 1, least: 1, all: 1} // nobody wants anything
	}
	return division{jain: maxmin.Jain(ratios), least: slices.Min(ratios), all: sum.ratio()}
}

// verdict holds the division against what is promised. It says little about fairness where permits
// were left that somebody was entitled to.
func (d division) verdict() string {
	switch {
	case d.all < inUse:
		return fmt.Sprintf(":\nonly %s of what workers are entitled to is in use, so that this says little; are the "+
			"processors busy?", draw.Percent(d.all))
	case d.jain < fairIndex || d.least < fairLeastPart:
		return ":\nless fair than promised; are the processors busy?"
	}
	return ": fair"
}

// partTable has a row for each worker.
func partTable(all []part) string {
	if len(all) == 0 {
		return "too short to judge how fair it was: no three windows passed without a change\n"
	}
	var b strings.Builder
	const row = "%-9s  %10s  %10s  %10s  %7s"
	b.WriteString(strings.TrimRight(fmt.Sprintf(row, "worker", "wanted", "entitled", "got", ""), " ") + "\n")
	for _, p := range all {
		fmt.Fprintf(&b, row+"\n", p.name, draw.Count(p.wanted), draw.Count(p.entitled), draw.Count(p.got),
			draw.Percent(p.ratio()))
	}
	d := divisionOf(all)
	fmt.Fprintf(&b, "Jain's index of got/entitled %.3f, the least has %s of its part%s\n", d.jain,
		draw.Percent(d.least), d.verdict())
	return b.String()
}
