package majority

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

var walks = flag.Int("majority.walks", 20_000, "random walks through worlds of places and rounds")

// walk plays one random history. It is the same for the same seed.
func walk(r *rules, seed uint64, steps int) ([]step, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(r)
	var path []step
	for range steps {
		all := w.steps()
		if len(all) == 0 {
			break
		}
		s := all[random.IntN(len(all))]
		path = append(path, s)
		next, err := w.after(s)
		if err != nil {
			return path, err
		}
		w = next
	}
	return path, nil
}

// drawn is a world that is drawn for a seed.
func drawn(seed uint64) *rules {
	var r rules
	random := rand.New(rand.NewPCG(seed, 2))
	r.places = 3 + 2*random.IntN(2)
	r.proposers = 2 + random.IntN(2)
	r.rounds = r.proposers * (1 + random.IntN(4))
	r.forgets, r.restarts, r.saves = random.IntN(5), random.IntN(4), random.IntN(6)
	r.deaf, r.reads = random.IntN(3), random.IntN(3)
	r.fresh, r.confirms = random.IntN(4) == 0, random.IntN(2) == 0
	r.absent, r.renews = !r.fresh && random.IntN(2) == 0, random.IntN(4)
	r.bare, r.unused = random.IntN(2) == 0, random.IntN(2) == 0
	return &r
}

// Larger histories than can all be visited, drawn at random.
func TestRandomWalks(t *testing.T) {
	steps := 0
	for seed := range extent.Some(*walks) {
		r := drawn(uint64(seed))
		path, err := walk(r, uint64(seed), 50*r.rounds)
		if err != nil {
			t.Fatalf("seed %d: %v after %v", seed, err, path)
		}
		steps += len(path)
	}
	t.Logf("%d steps", steps)
}
