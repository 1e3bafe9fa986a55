package histories

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/race"
)

// What the judge of histories says of histories that are known: no false alarm, and no blind spot.
// One call more is too many.
func TestHistoriesAreJudged(t *testing.T) {
	const s = int64(time.Second)
	limit := func(permits int64) shardlimit.Limit { return shardlimit.Limit{Permits: permits, Per: 10 * time.Second} }
	for name, c := range map[string]struct {
		versions []*version
		extra    []allowance
		ops      []history.Op
		more     history.Op
	}{
		"a limit": {versions: []*version{{limit: limit(10)}},
			ops:  []history.Op{{Start: s, End: 2 * s, Permits: 10}, {Start: 11 * s, End: 12 * s, Permits: 9}},
			more: history.Op{Start: 9 * s, End: 11*s - 1, Permits: 1}},
		"the greater during a change, and the new one after it": {
			versions: []*version{{limit: limit(10), ended: 20 * s}, {limit: limit(4), called: 19 * s}},
			ops:      []history.Op{{Start: 19 * s, End: 19 * s, Permits: 5}, {Start: 21 * s, End: 21 * s, Permits: 4}},
			more:     history.Op{Start: 22 * s, End: 22 * s, Permits: 1}},
		"what is allowed for a loss, and not after it": {versions: []*version{{limit: limit(10)}},
			extra: []allowance{{from: 5 * s, to: 5 * s, permits: 10}},
			ops:   []history.Op{{Start: s, End: 2 * s, Permits: 9}, {Start: 6 * s, End: 6 * s, Permits: 9}},
			more:  history.Op{Start: 8 * s, End: 8 * s, Permits: 2}},
		"a window that changes its length, of which nothing is said": {
			versions: []*version{{limit: limit(50), ended: 20 * s},
				{limit: shardlimit.Limit{Permits: 10, Per: 5 * time.Second}}},
			ops:  []history.Op{{Start: 19 * s, End: 19 * s, Permits: 50}, {Start: 25 * s, End: 25 * s, Permits: 10}},
			more: history.Op{Start: 26 * s, End: 26 * s, Permits: 1}},
	} {
		for _, ops := range [][]history.Op{c.ops, append(c.ops, c.more)} {
			l := &watched{world: &world{stat: stats{}}, versions: c.versions, extra: c.extra, ops: ops}
			l.judge()
			if over := len(l.world.findings) > 0; over != (len(ops) > len(c.ops)) {
				t.Errorf("%s: %d calls are over: %t: %v", name, len(ops), over, l.world.findings)
			}
		}
	}
}

// A call has three round trips more only for keys that may be on their way, where the records may
// have moved, and for keys after a rest. Of a family that stays where it is, the judge expects what
// it expects of a limit.
func TestOnlyWhatMovesMayTakeLonger(t *testing.T) {
	counter := shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: shardlimit.SlidingCounter}
	for name, c := range map[string]struct {
		family, placed, lost bool
		woke                 bool // the process rested before
		next                 shardlimit.Limit
		ago                  time.Duration // that it was changed
		near                 bool
	}{
		"a limit":                  {near: true, next: counter, ago: time.Hour},
		"a limit changed just now": {next: counter, ago: time.Millisecond},
		"a limit placed elsewhere": {placed: true, next: counter, ago: time.Hour},
		"a family":                 {family: true, near: true, ago: time.Hour},
		"keys placed elsewhere":    {family: true, placed: true, ago: time.Hour},
		"a family after a rest":    {family: true, woke: true, ago: time.Hour},
		"keys of a lost node":      {family: true, lost: true, ago: time.Hour},
		"keys counted otherwise":   {family: true, next: counter, ago: time.Hour},
		"another number": {family: true, next: shardlimit.Limit{Permits: 9, Per: time.Second}, near: true,
			ago: time.Hour},
	} {
		w := &world{begun: time.Now().Add(-c.ago), troubled: c.lost,
			plan: &plan{Procs: []processPlan{{NodeTimeout: time.Second}}}}
		l := &watched{placed: c.placed, world: w,
			plan: limitPlan{Limit: shardlimit.Limit{Permits: 10, Per: time.Second}, Family: c.family}}
		l.declared(0)
		if c.next.Permits > 0 {
			l.versions = append(l.versions, &version{limit: c.next})
		}
		// three trips of 10 ms are less than half of the call timeout, six are not
		p := &process{world: w, plan: processPlan{Latency: []time.Duration{10 * time.Millisecond}}}
		if c.woke {
			p.woke = w.now()
		}
		if p.near(l) != c.near {
			t.Errorf("%s: near is %t", name, !c.near)
		}
	}
}

// A doubt ends with a process that has heard of the last change, also if that has only moved the
// limit to other shards.
func TestWhoKnowsOtherShardsDoesNotKnowTheLimit(t *testing.T) {
	limit := func(permits int64, shards int) shardlimit.Limit {
		return shardlimit.Limit{Permits: permits, Per: time.Second, Shards: shards}
	}
	for name, c := range map[string]struct {
		is      []shardlimit.Limit // the last one, and those before it
		known   shardlimit.Limit
		family  bool
		current bool
	}{
		"the same":           {is: []shardlimit.Limit{limit(44, 8)}, known: limit(44, 8), current: true},
		"other permits":      {is: []shardlimit.Limit{limit(44, 8)}, known: limit(40, 8)},
		"other shards":       {is: []shardlimit.Limit{limit(44, 8)}, known: limit(44, 3)},
		"as many as can be":  {is: []shardlimit.Limit{limit(2, 8)}, known: limit(2, 2), current: true},
		"chosen for it":      {is: []shardlimit.Limit{limit(44, 0)}, known: limit(44, 3), current: true},
		"a family's number":  {is: []shardlimit.Limit{limit(44, 8)}, known: limit(44, 3), family: true, current: true},
		"declared again":     {is: []shardlimit.Limit{limit(44, 8), limit(44, 8)}, known: limit(44, 8), current: true},
		"what it was before": {is: []shardlimit.Limit{limit(44, 8), limit(7, 8), limit(44, 8)}, known: limit(44, 8)},
	} {
		l := &watched{world: &world{}, plan: limitPlan{Family: c.family}}
		for _, limit := range c.is {
			l.versions = append(l.versions, &version{limit: limit})
		}
		if l.isCurrent(c.known) != c.current {
			t.Errorf("%s: current is %t", name, !c.current)
		}
	}
}

// A process that was replaced brings its limit again after the family counts by another algorithm.
// And while a process rests, another one changes the algorithm again and again: its first call
// finds nothing at any shard that it knows, and is served by the others.
func TestWhoRestedHearsOfAnotherAlgorithm(t *testing.T) {
	if race.Enabled {
		return // see TestHistories
	}
	counter := shardlimit.Limit{Permits: 18, Per: time.Second, Shards: 1, Algorithm: shardlimit.SlidingCounter}
	log := counter
	log.Algorithm = shardlimit.SlidingLog
	keyed := &plan{Nodes: 1, Procs: []processPlan{{Nodes: []int{0}, Latency: []time.Duration{0}}},
		Limits: []limitPlan{{Limit: counter, Family: true}}, Steps: []step{{Do: "bring", Limit: counter},
			{Do: "set", Limit: log}, {Do: "place", List: []int{0}}, {Do: "settle"}, {Do: "free"}}}
	if found, seen, _ := playOne(t, keyed); len(found) > 0 || seen["free, judged"] != 1 {
		t.Errorf("%v, after %s", found, seen)
	}
	process := processPlan{Nodes: []int{0, 1}, Latency: []time.Duration{100 * time.Microsecond, 300 * time.Microsecond}}
	log.Per, counter.Per, log.Shards, counter.Shards = 100*time.Millisecond, 100*time.Millisecond, 2, 2
	resting := &plan{Nodes: 2, Procs: []processPlan{process, process}, Limits: []limitPlan{{Limit: log}},
		Scripts: 10_000}
	for i := range 20 {
		limit := []shardlimit.Limit{counter, log}[i%2]
		resting.Steps = append(resting.Steps, once(0, 0), step{Do: "set", P: 1, Limit: limit},
			rest(30*time.Second+time.Duration(i)*7*time.Millisecond))
	}
	if found, seen, _ := playOne(t, resting); len(found) > 0 || seen["calls"] != 20 || seen["permits"] != 20 {
		t.Errorf("%v, after %s", found, seen)
	}
}
