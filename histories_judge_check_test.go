package shardlimit_test

import (
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
