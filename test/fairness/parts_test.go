package fairness

import (
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/race"
)

// TestEachHasItsPart: whatever participants want, and when they come, each has its part, nearly all
// of the limit is used, and few calls are made for a permit. Machines have their parts though none
// may save up as many permits as it wants at once.
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
		{"hog, little", 1, 0.9, 0.97, 1.25},
		{"gateway, hog", 4, 0.85, 0.92, 1.25},
		{"Pareto", 1, 0.9, 0.97, 1.25},
		{"weights", 4, 0.93, 0.97, 1.35},
		{"overload", 4, 0.95, 0.97, 1.5},
		{"workers, weights", 1, 0.95, 0.97, 0.5},
		{"workers that work", 1, 0.9, 0.97, 1.4},
		{"newcomer, hog", 4, 0.92, 0.97, 1.2},
		{"heir", 1, 0.98, 0.98, 1.1}, // of those who have left nothing remains
		{"heir", 4, 0.98, 0.98, 1.5},
		{"visitor", 1, 0.98, 0.98, 1.1},
		{"lump", 1, 0.88, 0.97, 1.3},
		{"4 with batches of 100", 1, 0.93, 0.99, 0.5},
		{"11 with batches of 50", 1, 0.9, 0.99, 0.5},
		{"30 with batches of 50", 1, 0.75, 0.99, 0.5}, // a batch more or less is 0.06 of a part
	} {
		all := append(populations(), nightly(4, 100), nightly(11, 50), nightly(30, 50))
		p := all[slices.IndexFunc(all, func(p *population) bool { return p.name == c.name })]
		if r := p.play(t, c.shards, 0); r.Least < c.least || r.Use < c.use || r.Jain < 0.995 || r.Calls > c.calls {
			t.Errorf("%s on %d: %s", c.name, c.shards, r)
		}
	}
}
