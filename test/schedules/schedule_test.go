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
			if all.schedule(t.Failed()); t.Failed() {
				t.Logf("play it again, if need be with fewer events: -schedules 1 -schedules.seed %d -schedules.kind %s "+
					"-schedules.only %s", p.seed, p.kind, p.numbers())
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

func (p *schedulePlan) numbers() string {
	var list []string
	for _, e := range p.events {
		list = append(list, strconv.Itoa(e.number))
	}
	return strings.Join(list, ",")
}

// tally is what was seen in all schedules together.
type tally struct {
	mu                                    sync.Mutex
	schedules, failed                     int
	calls, permits, errors, most, excused int64
	done                                  map[string]int
}

func (a *tally) schedule(failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.schedules++
	if failed {
		a.failed++
	}
}

// did counts something that happened.
func (a *tally) did(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = map[string]int{}
	}
	a.done[what]++
}

func (a *tally) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules, %d failed: %d decisions, %d permits; %d calls that failed\n", a.schedules,
		a.failed, a.calls-a.errors, a.permits, a.errors)
	fmt.Fprintf(&b, "%d limits were used up; of %d a window held more, within the bounds of docs/failures.md\n",
		a.most, a.excused)
	for _, what := range slices.Sorted(maps.Keys(a.done)) {
		fmt.Fprintf(&b, "%5d times: %s\n", a.done[what], what)
	}
	return b.String()
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
