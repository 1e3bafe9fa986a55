package schedules

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

var (
	schedules = flag.Int("schedules", 0,
		"how many random schedules TestRandomSchedules plays; 0: a short one of each kind")
	schedulesSeed = flag.Uint64("schedules.seed", 31, "the seed of the first of them; the next ones count on")
	schedulesKind = flag.String("schedules.kind", "",
		"which servers they have: one of "+strings.Join(scheduleKinds, ", ")+"; any if empty")
	schedulesOnly = flag.String("schedules.only", "",
		"the numbers of the events that are played, with commas between; all if empty")
)

// scheduleKinds are the servers that a schedule may have: four that stand alone; a Redis Cluster,
// alone or beside two of these; a Sentinel set beside three.
var scheduleKinds = []string{"standalone", "cluster", "sentinel"}

// drawnKinds is how often which of them is drawn.
var drawnKinds = []string{"standalone", "standalone", "standalone", "cluster", "sentinel"}

// TestRandomSchedules has real servers break in random ways, one or two at a time, while processes
// call as hard as they can, are suspended and killed, and change the limit. No window holds more
// than docs/failures.md says, and when all is mended nothing is missing.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	var all tally
	t.Cleanup(func() { t.Log(&all) })
	if *schedules == 0 {
		for i, kind := range scheduleKinds {
			playSchedule(t, &all, drawSchedule(*schedulesSeed+uint64(i), kind, 2))
		}
		return
	}
	for i := range uint64(*schedules) {
		p := drawSchedule(*schedulesSeed+i, *schedulesKind, 0)
		if *schedulesOnly != "" {
			p.only(*schedulesOnly)
		}
		playSchedule(t, &all, p)
	}
}

func playSchedule(t *testing.T, all *tally, p *schedulePlan) {
	t.Run(fmt.Sprintf("%s/%d", p.kind, p.seed), func(t *testing.T) {
		t.Parallel()
		s := &schedule{T: t, Rand: rand.New(rand.NewPCG(p.seed, 0)), plan: p, tally: all}
		t.Cleanup(func() { // also after Fatal
			if all.add("schedules", 1); t.Failed() {
				all.add("schedules that failed", 1)
				t.Logf("play it again, if need be with some of its %d events: -schedules 1 -schedules.seed %d "+
					"-schedules.kind %s -schedules.only 0,1,2...", len(p.events), p.seed, p.kind)
			}
		})
		s.play()
	})
}

// schedulePlan is what happens in a schedule. Each event has a number that stays when others are
// left out.
type schedulePlan struct {
	seed   uint64
	kind   string
	events []disturbance
}

// disturbance is one thing that happens.
type disturbance struct {
	number int
	what   string
	on     int    // a node or a process
	seed   uint64 // of whatever else it draws
	pause  time.Duration
}

// disturbances are what can happen, as often as they are named.
var disturbances = slices.Concat(slices.Repeat([]string{"break"}, 12), slices.Repeat([]string{"mend"}, 3),
	slices.Repeat([]string{"process"}, 4), slices.Repeat([]string{"permits"}, 2), slices.Repeat([]string{"shards"}, 2),
	[]string{"rebalance", "delete", "snapshot"})

// drawSchedule makes the plan of a seed, with so many events, or some if that is 0.
func drawSchedule(seed uint64, kind string, events int) *schedulePlan {
	r := rand.New(rand.NewPCG(seed, 2))
	p := &schedulePlan{seed: seed, kind: drawnKinds[r.IntN(len(drawnKinds))]}
	if kind != "" {
		p.kind = kind
	}
	n := 6 + r.IntN(8)
	if events > 0 {
		n = events
	}
	for i := range n {
		p.events = append(p.events, drawDisturbance(r, i))
	}
	return p
}

func drawDisturbance(r *rand.Rand, number int) disturbance {
	return disturbance{number: number, what: disturbances[r.IntN(len(disturbances))], on: r.IntN(12), seed: r.Uint64(),
		pause: time.Duration(r.IntN(2500)) * time.Millisecond}
}

// only leaves out all events but those with the numbers in the list.
func (p *schedulePlan) only(list string) {
	numbers := strings.Split(list, ",")
	p.events = slices.DeleteFunc(p.events, func(e disturbance) bool {
		return !slices.Contains(numbers, strconv.Itoa(e.number))
	})
}

// tally counts what was seen in all schedules together.
type tally struct {
	mu   sync.Mutex
	seen map[string]int64
}

func (a *tally) add(what string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]int64{}
	}
	a.seen[what] += n
}

func (a *tally) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(a.seen)) {
		fmt.Fprintf(&b, "\n%9d %s", a.seen[what], what)
	}
	return b.String()
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
