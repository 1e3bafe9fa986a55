package demo

import (
	"fmt"
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
	parts       []part        // empty if the demo was too short to tell
	late        time.Duration // how late the view came at the worst
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
		late:        s.late,
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
	b.WriteString(partTable(v.parts, v.late))
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
