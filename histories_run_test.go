package shardlimit_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	lots "github.com/shardlimit/shardlimit/internal/chance"
)

// stats is what happened in histories.
type stats struct {
	Histories, Calls, Denied, Errors, Degraded, Granted, Scripts, Cut int64

	Unlike int64 // of those that were played twice: whose commands differed

	Did  map[string]int64 // steps
	Near map[string]int64 // histories in which a limit was used up after such a thing happened to it
}

func (s *stats) did(what string)  { s.Did = count(s.Did, what) }
func (s *stats) near(what string) { s.Near = count(s.Near, what) }

func count(all map[string]int64, what string) map[string]int64 {
	if all == nil {
		all = make(map[string]int64)
	}
	all[what]++
	return all
}

// add sums up.
func (s *stats) add(o stats) {
	s.Histories += o.Histories
	s.Calls += o.Calls
	s.Denied += o.Denied
	s.Errors += o.Errors
	s.Degraded += o.Degraded
	s.Granted += o.Granted
	s.Scripts += o.Scripts
	s.Cut += o.Cut
	s.Unlike += o.Unlike
	for what, n := range o.Did {
		s.Did = count(s.Did, what)
		s.Did[what] += n - 1
	}
	for what, n := range o.Near {
		s.Near = count(s.Near, what)
		s.Near[what] += n - 1
	}
}

func (s stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"%d histories, %d calls (%d denied, %d errors, %d degraded), %d permits, %d script calls; %d were cut short, %d went another way when played again\n",
		s.Histories, s.Calls, s.Denied, s.Errors, s.Degraded, s.Granted, s.Scripts, s.Cut, s.Unlike)
	for _, what := range slices.Sorted(maps.Keys(s.Did)) {
		fmt.Fprintf(&b, "  %-16s %8d", what, s.Did[what])
		if near := s.Near[what]; near > 0 {
			fmt.Fprintf(&b, ", and then used up in %d histories", near)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// playOne plays a history, and returns what must not be and a hash of all commands that were sent.
func playOne(t *testing.T, p *plan) (found []finding, s stats, trace uint64) {
	lots.Seed(p.Seed)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p)
		w.play()
		w.stat.Histories = 1
		found, s, trace = w.findings, w.stat, w.trace
	})
	return found, s, trace
}

// playTwice plays a history twice, and counts it if it went another way the second time.
func playTwice(t *testing.T, p *plan) (found []finding, s stats) {
	found, s, first := playOne(t, p)
	again, _, second := playOne(t, p)
	if first != second {
		s.Unlike++
	}
	return append(found, again...), s
}
