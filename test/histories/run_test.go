package histories

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lots "github.com/shardlimit/shardlimit/internal/chance"
)

// stats is what happened in histories.
type stats struct {
	Histories, Calls, Denied, Errors, Degraded, Granted, Scripts, Cut int64

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
		"%d histories, %d calls (%d denied, %d errors, %d degraded), %d permits, %d script calls; %d were cut short\n",
		s.Histories, s.Calls, s.Denied, s.Errors, s.Degraded, s.Granted, s.Scripts, s.Cut)
	for _, what := range slices.Sorted(maps.Keys(s.Did)) {
		fmt.Fprintf(&b, "  %-16s %8d", what, s.Did[what])
		if near := s.Near[what]; near > 0 {
			fmt.Fprintf(&b, ", and then used up in %d histories", near)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// sent is a command that a process sent: when, and a hash of it, of who sent it, and where to.
type sent struct {
	at  int64
	sum uint64
}

// anotherWay is the finding that a history went another way when it was played again.
const anotherWay = "another way"

// playOne plays a history, and returns what must not be and all commands in order.
func playOne(t *testing.T, p *plan) (found []finding, s stats, trace []sent) {
	runtime.GC() // and not while it is played: that changes who goes first
	lots.Seed(p.Seed)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p)
		w.play()
		w.stat.Histories = 1
		found, s, trace = w.findings, w.stat, w.trace
	})
	return found, s, trace
}

// playTwice plays a history twice. It must go the same way.
func playTwice(t *testing.T, p *plan) (found []finding, s stats) {
	found, s, first := playOne(t, p)
	again, _, second := playOne(t, p)
	if found = append(found, again...); !slices.Equal(first, second) {
		n := 0
		for n < min(len(first), len(second)) && first[n] == second[n] {
			n++
		}
		at := append(first[n:], sent{})[0].at
		found = append(found, finding{anotherWay, fmt.Sprintf("from command %d of %d on, at %s", n, len(first),
			time.Duration(at))})
	}
	return found, s
}
