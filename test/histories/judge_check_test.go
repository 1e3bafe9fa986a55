package histories

import (
	"cmp"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// What the judge of histories says of histories that are known: no false alarm, and no blind spot.
func TestHistoriesAreJudged(t *testing.T) {
	const s = int64(time.Second)
	limit := func(permits int64) shardlimit.Limit { return shardlimit.Limit{Permits: permits, Per: 10 * time.Second} }
	lowered := []*version{{limit: limit(10), ended: 20 * s}, {limit: limit(4), called: 19 * s}}
	for name, c := range map[string]struct {
		versions []*version
		extra    []allowance
		ops      []history.Op
		over     bool
	}{
		"as many as there are": {versions: []*version{{limit: limit(10)}},
			ops: []history.Op{{Start: s, End: 2 * s, Permits: 10}, {Start: 10 * s, End: 11 * s, Permits: 10}}},
		"one too many": {versions: []*version{{limit: limit(10)}},
			ops:  []history.Op{{Start: s, End: 2 * s, Permits: 10}, {Start: 9 * s, End: 11*s - 1, Permits: 1}},
			over: true},
		"the greater during a change": {versions: lowered,
			ops: []history.Op{{Start: 19 * s, End: 19 * s, Permits: 6}, {Start: 21 * s, End: 21 * s, Permits: 4}}},
		"the new one after it": {versions: lowered,
			ops:  []history.Op{{Start: 20 * s, End: 21 * s, Permits: 4}, {Start: 22 * s, End: 22 * s, Permits: 1}},
			over: true},
		"what is allowed for a loss": {versions: []*version{{limit: limit(10)}},
			extra: []allowance{{from: 5 * s, to: 5 * s, permits: 10}},
			ops:   []history.Op{{Start: s, End: 2 * s, Permits: 10}, {Start: 6 * s, End: 6 * s, Permits: 10}}},
		"and not after it": {versions: []*version{{limit: limit(10)}},
			extra: []allowance{{from: 5 * s, to: 5 * s, permits: 10}},
			ops:   []history.Op{{Start: 6 * s, End: 7 * s, Permits: 10}, {Start: 8 * s, End: 8 * s, Permits: 1}},
			over:  true},
		"nothing is said of a window that changes its length": {
			versions: []*version{{limit: limit(10)}, {limit: shardlimit.Limit{Permits: 10, Per: time.Second}}},
			ops:      []history.Op{{Start: s, End: s, Permits: 10}, {Start: 3 * s, End: 3 * s, Permits: 10}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &watched{world: &world{}, versions: c.versions, extra: c.extra, ops: c.ops}
			l.judge()
			if got := len(l.world.findings) > 0; got != c.over {
				t.Errorf("over: %t, want %t: %v", got, c.over, l.world.findings)
			}
		})
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
		ago                  time.Duration // that it was changed; 0: an hour
		near                 bool
	}{
		"a limit":                  {near: true, next: counter},
		"a limit changed just now": {next: counter, ago: time.Millisecond},
		"a limit placed elsewhere": {placed: true, next: counter},
		"a family":                 {family: true, near: true},
		"keys placed elsewhere":    {family: true, placed: true},
		"a family after a rest":    {family: true, woke: true},
		"keys of a lost node":      {family: true, lost: true},
		"keys counted otherwise":   {family: true, next: counter},
		"another number":           {family: true, next: shardlimit.Limit{Permits: 9, Per: time.Second}, near: true},
	} {
		l := &watched{placed: c.placed, world: &world{begun: time.Now().Add(-cmp.Or(c.ago, time.Hour)), troubled: c.lost,
			plan: &plan{Procs: []processPlan{{NodeTimeout: time.Second}}}}}
		l.plan = limitPlan{Limit: shardlimit.Limit{Permits: 10, Per: time.Second}, Family: c.family}
		l.declared(0)
		if c.next.Permits > 0 {
			l.versions = append(l.versions, &version{limit: c.next})
		}
		// three trips of 10 ms are less than half of the call timeout, six are not
		p := &process{world: l.world, plan: processPlan{Latency: []time.Duration{10 * time.Millisecond}}}
		if c.woke {
			p.woke = l.world.now()
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
		before    []shardlimit.Limit
		is, known shardlimit.Limit
		family    bool
		current   bool
	}{
		"the same":               {is: limit(44, 8), known: limit(44, 8), current: true},
		"other permits":          {is: limit(44, 8), known: limit(40, 8)},
		"other shards":           {is: limit(44, 8), known: limit(44, 3)},
		"as many as can be":      {is: limit(2, 8), known: limit(2, 2), current: true},
		"chosen for it":          {is: limit(44, 0), known: limit(44, 3), current: true},
		"a family keeps as many": {is: limit(44, 8), known: limit(44, 3), family: true, current: true},
		"declared again": {before: []shardlimit.Limit{limit(44, 8)}, is: limit(44, 8), known: limit(44, 8),
			current: true},
		"what it was before": {before: []shardlimit.Limit{limit(44, 8), limit(7, 8)}, is: limit(44, 8),
			known: limit(44, 8)},
	} {
		l := &watched{world: &world{}, plan: limitPlan{Family: c.family}}
		for _, v := range append(c.before, c.is) {
			l.versions = append(l.versions, &version{limit: v})
		}
		if l.isCurrent(c.known) != c.current {
			t.Errorf("%s: current is %t", name, !c.current)
		}
	}
}

// A process that was replaced brings its limit again after the family counts by another algorithm.
func TestABroughtLimitGoesByItsFamily(t *testing.T) {
	counter := shardlimit.Limit{Permits: 20, Per: time.Second, Shards: 1, Algorithm: shardlimit.SlidingCounter}
	log := counter
	log.Algorithm = shardlimit.SlidingLog
	found, seen, _ := playOne(t, &plan{
		Nodes:  1,
		Procs:  []processPlan{{Nodes: []int{0}, Latency: []time.Duration{0}}},
		Limits: []limitPlan{{Limit: counter, Family: true}},
		Steps: []step{
			{Do: "bring", Limit: counter},
			{Do: "set", Limit: log},
			{Do: "place", List: []int{0}},
			{Do: "settle"},
			{Do: "free"},
		},
	})
	if len(found) > 0 || seen["free, judged"] != 1 {
		t.Errorf("%v, after %s", found, seen)
	}
}
