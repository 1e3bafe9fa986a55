package fairness

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestServiceOfTwoDiffersByTheirDepths: two participants that always want more than they get are
// served alike by weight. From the seventh window of contention on, their permits per weight in any
// window differ by at most the credit that their two accounts can hold, per weight, and two
// permits each: with one each, a draw in some thousand is a part of a permit over. Beside them are
// others that want less than their part.
func TestServiceOfTwoDiffersByTheirDepths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(100, 3000).Draw(t, "limit")
		s := newSim(nil, limit, 1)
		many, total := rapid.IntRange(2, 12).Draw(t, "backlogged"), 0.0
		for range many {
			c := s.add(1000*rapid.Int64Range(1, 4).Draw(t, "weight"), nil)
			total += float64(c.weight)
		}
		lights := rapid.IntRange(1, 5).Draw(t, "light")
		part := float64(limit) * 1000 / (total + 1000*float64(lights))
		want := part * rapid.Float64Range(0, 0.9).Draw(t, "of their part that the light want")
		for range lights {
			s.add(1000, steady(want))
		}
		const begin, end = 6 * simWindow / simStep, 11 * simWindow / simStep
		served := make([][]float64, many) // since the start, by step
		for step := range int64(end) {
			now := epoch + step*simStep
			for _, i := range s.rng.Perm(len(s.clients)) {
				c := s.clients[i]
				if i >= many {
					if calls := s.calls(c, now); calls > 0 {
						s.serve(c, now, calls)
					}
				} else if c.open[0] <= now {
					c.admitted += s.serve(c, now, 20)
				}
			}
			for i := range served {
				served[i] = append(served[i], float64(s.clients[i].admitted))
			}
		}
		slack := func(c *simClient) float64 {
			weight := float64(c.weight) / 1000
			return (depth(float64(limit)*float64(c.weight)/total) + 2) / weight
		}
		for i := range many {
			for k := range i {
				a, b, worst := s.clients[i], s.clients[k], 0.0
				for step := begin; step+simWindow/simStep < end; step++ {
					in := func(who int) float64 {
						got := served[who][step+simWindow/simStep] - served[who][step]
						return got * 1000 / float64(s.clients[who].weight)
					}
					worst = max(worst, math.Abs(in(i)-in(k)))
				}
				if most := slack(a) + slack(b); worst > most {
					t.Fatalf("permits per weight differ by %.1f in a window, at most %.1f expected", worst, most)
				}
			}
		}
	})
}
