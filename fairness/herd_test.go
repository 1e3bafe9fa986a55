package fairness

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedOverload: a demand far beyond the limit, after a window that has filled the log
// evenly. Calls for a permit do not grow with it: the participants do not all come when a permit
// does. Even calls fall together as they happen to begin, so several beginnings are looked at.
func TestSimulatedOverload(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shards := range []int{1, 4} {
		for _, times := range []float64{1, 10, 100} {
			const beginnings = 20
			var mean simResult
			for range beginnings {
				s := newSim(t, 200, shards)
				for range 4 {
					c := s.add(1000, func(now int64) float64 {
						if now < 1.1*simWindow {
							return 50
						}
						return times * 50
					})
					c.even, c.due = true, rng.Float64()
				}
				s.run(12, 2)
				r := s.result(10)
				if r.jain < 0.99 {
					t.Errorf("%v times the limit on %d shards: J %.4f", times, shards, r.jain)
				}
				mean.jain, mean.least, mean.use, mean.calls = mean.jain+r.jain/beginnings, mean.least+
					r.least/beginnings, mean.use+r.use/beginnings, mean.calls+r.calls/beginnings
			}
			t.Logf("overload %-10s J %.4f  min %.3f  use %.3f  calls %.2f", fmt.Sprint(times, " ", shards), mean.jain,
				mean.least, mean.use, mean.calls)
			if mean.calls > 1.55 || mean.jain < 0.998 || mean.least < 0.95 || mean.use < 0.975 {
				// seen: 1.48, .9999, .968, .978
				t.Error("participants come in vain, or permits are wasted")
			}
		}
	}
}

// TestSimulatedWaiters: participants with ten callers each that wait.
func TestSimulatedWaiters(t *testing.T) {
	for _, limit := range []int64{2000, 20000} {
		if limit == 20000 && !extent.Full {
			continue
		}
		for _, people := range []int{20, 100} {
			for _, shards := range []int{1, 8} {
				const beginnings = 4 // a hundred who have 2.5 permits a window on each of eight shards have luck or not
				var mean simResult
				for beginning := range uint64(beginnings) {
					s := newSim(t, limit, shards)
					s.rng = rand.New(rand.NewPCG(beginning, 5))
					for range people {
						s.add(1000, nil).waiters = 10
					}
					s.run(12, 2)
					r := s.result(10)
					mean.jain, mean.least, mean.use, mean.calls = mean.jain+r.jain/beginnings, mean.least+
						r.least/beginnings, mean.use+r.use/beginnings, mean.calls+r.calls/beginnings
				}
				t.Logf("waiters %-10s J %.4f  min %.3f  use %.3f  calls %.2f",
					fmt.Sprint(limit, " ", people, " ", shards), mean.jain, mean.least, mean.use, mean.calls)
				if mean.calls > 1.7 || mean.jain < 0.995 || mean.least < 0.89 || mean.use < 0.98 {
					// seen: 1.50, .9993, .910, .994
					t.Error("waiters ask in vain, or permits are wasted")
				}
			}
		}
	}
}
