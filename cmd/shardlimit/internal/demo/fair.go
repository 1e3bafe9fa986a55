package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/history"
)

const (
	// windows that are left out of the judgement after a change: a newcomer is at its part in two,
	// and so is everybody after permits came back together
	settling      = 2
	fairIndex     = 0.99 // of Jain, from which the division is called fair,
	fairLeastPart = 0.95 // if nobody has less of its part,
	inUse         = 0.98 // and all together have so much of theirs

	// stretchLeast is the least time that is judged as one: in less, parts are fractions of permits
	stretchLeast = 100 * time.Millisecond
)

// stretchOf is how many windows are judged as one.
func stretchOf(window time.Duration) int64 {
	return max(1, int64((stretchLeast+window-1)/max(window, 1)))
}

// account is the history of a worker: what it asked for and what it got. One that waits asks for
// nothing meanwhile; it wants what it would begin if it had not to wait.
type account struct {
	name       string
	want       float64 // permits a window
	patient    bool
	asked, got []history.Op
}

// part is what a worker wanted and got in the windows that are judged, and what it was entitled to.
type part struct {
	name                  string
	wanted, entitled, got int64
}

// ratio is how much of its part a worker has. Of one that is entitled to nothing it means nothing.
func (p part) ratio() float64 { return float64(p.got) / float64(max(p.entitled, 1)) }

// entitled divides the permits of a window among workers that want so many each, by max-min
// fairness.
func entitled(permits int64, wants []int64) []int64 {
	claims := make([]fairness.Claim, len(wants))
	for i, want := range wants {
		claims[i] = fairness.Claim{Demand: want, Weight: 1}
	}
	return fairness.Shares(nil, permits, claims)
}

// parts sums up whole windows, or stretches of several short ones, those that are judged. There are
// none if the demo was too short.
func parts(window time.Duration, phases []phase, workers []account) []part {
	all, judged := make([]part, len(workers)), false
	windows := stretchOf(window)
	stretch := time.Duration(windows) * window
	for _, p := range phases {
		from := p.done + settling*int64(stretch)
		asked, got := make([][]int64, len(workers)), make([][]int64, len(workers))
		for i, w := range workers {
			all[i].name = w.name
			asked[i] = history.PerWindow(stretch, from, p.until, w.asked)
			got[i] = history.PerWindow(stretch, from, p.until, w.got)
		}
		for k := range got[0] {
			judged = true
			wants := make([]int64, len(workers))
			for i, w := range workers {
				if wants[i] = asked[i][k]; w.patient {
					wants[i] = int64(w.want*float64(windows) + 0.5)
				}
			}
			for i, share := range entitled((p.limit-p.away)*windows, wants) {
				all[i].wanted += wants[i]
				all[i].entitled += share
				all[i].got += got[i][k]
			}
		}
	}
	if !judged {
		return nil
	}
	return all
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
	return division{jain: fairness.Jain(ratios), least: slices.Min(ratios), all: sum.ratio()}
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
	width := len("worker")
	for _, p := range all {
		width = max(width, len(p.name))
	}
	fmt.Fprintf(&b, "%-*s  %10s  %10s  %10s\n", width, "worker", "wanted", "entitled", "got")
	for _, p := range all {
		ratio := "-"
		if p.entitled > 0 {
			ratio = draw.Percent(p.ratio())
		}
		fmt.Fprintf(&b, "%-*s  %10s  %10s  %10s  %7s\n", width, p.name, draw.Count(p.wanted), draw.Count(p.entitled),
			draw.Count(p.got), ratio)
	}
	d := divisionOf(all)
	fmt.Fprintf(&b, "Jain's index of got/entitled %.3f, the least has %s of its part%s\n", d.jain,
		draw.Percent(d.least), d.verdict())
	return b.String()
}
