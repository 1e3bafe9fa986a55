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

// stats counts what happened in histories.
type stats map[string]int64

// add sums up.
func (s stats) add(o stats) {
	for what, n := range o {
		s[what] += n
	}
}

func (s stats) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "\n%9d %s", s[what], what)
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		w.play()
		found, s, trace = w.findings, w.stat, w.trace
	})
	return found, s, trace
}

// differ tells where two plays of a history go different ways.
func differ(first, second []sent) []finding {
	if slices.Equal(first, second) {
		return nil
	}
	n := 0
	for n < min(len(first), len(second)) && first[n] == second[n] {
		n++
	}
	at := append(first[n:], sent{})[0].at
	return []finding{{anotherWay, fmt.Sprintf("from command %d of %d on, at %s", n, len(first), time.Duration(at))}}
}
