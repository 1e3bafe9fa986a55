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
}

func (s *stage) verdict() Verdict {
	ops := s.fleet.record.Ops()
	return Verdict{
		Window:      s.config.Rate.Per,
		Admitted:    history.Total(ops),
		Errors:      s.fleet.errors(),
		Failure:     s.fleet.failure(),
		Utilisation: utilisation(s.config.Rate.Per, s.phases, ops),
		findings:    judge(s.config.Rate.Per, s.phases, ops),
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
	fmt.Fprintf(&b, "admitted %s permits", draw.Count(v.Admitted))
	if v.Utilisation > 0 {
		fmt.Fprintf(&b, ", %s of what the limit allowed", draw.Percent(v.Utilisation))
	}
	fmt.Fprintf(&b, "; %d errors\n", v.Errors)
	if v.Failure != nil {
		fmt.Fprintf(&b, "for example: %v\n", v.Failure)
	}
	return b.String()
}
