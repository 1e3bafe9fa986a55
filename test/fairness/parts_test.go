package fairness

import (
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/race"
)

// TestEachHasItsPart: whatever participants want, and when they come, each has its part, nearly all
// of the limit is used, and few calls are made for a permit.
func TestEachHasItsPart(t *testing.T) {
	if race.Enabled {
		return // an emulated Redis takes long under it
	}
	for _, c := range []struct {
		name       string
		shards     int
		least, use float64
		calls      float64
	}{
		{"hog", 1, 0.91, 0.97, 1.25}, // seen: 0.948, 0.984, 1.12
		{"hog", 4, 0.85, 0.92, 1.25}, // 0.905, 0.948, 1.10
		{"Pareto", 1, 0.9, 0.97, 1.25},
		{"weights", 4, 0.93, 0.97, 1.35},
		{"overload", 4, 0.95, 0.97, 1.5},
		{"workers, weights", 1, 0.95, 0.97, 0.5},
		{"workers that work", 1, 0.9, 0.97, 1.4},
		{"newcomer, hog", 4, 0.92, 0.97, 1.2},
		{"lump", 1, 0.88, 0.97, 1.3},
	} {
		all := populations()
		p := all[slices.IndexFunc(all, func(p *population) bool { return p.name == c.name })]
		if r := p.play(t, c.shards, 0); r.Least < c.least || r.Use < c.use || r.Jain < 0.995 ||
			r.Calls > c.calls {
			t.Errorf("%s on %d: %s", c.name, c.shards, r)
		}
	}
}
