package fairness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

func TestSimulation(t *testing.T) {
	pareto := func(rng *rand.Rand) float64 { return math.Pow(1-rng.Float64(), -1/1.1) }
	for name, c := range map[string]struct {
		people func(s *sim, limit float64)
	}{
		"equal": {func(s *sim, limit float64) {
			for range 50 {
				s.add(1000, steady(1.2*limit/50))
			}
		}},
		"hog": {func(s *sim, limit float64) {
			s.add(1000, steady(limit))
			for range 49 {
				s.add(1000, steady(1.2*limit/50))
			}
		}},
		"hog and little": {func(s *sim, limit float64) {
			s.add(1000, steady(limit))
			for range 49 {
				s.add(1000, steady(0.5*limit/50))
			}
		}},
		"hog among few": {func(s *sim, limit float64) {
			s.add(1000, steady(10*limit))
			for range 4 {
				s.add(1000, steady(0.5*limit/5))
			}
		}},
		"pareto": {func(s *sim, limit float64) {
			rates, total := make([]float64, 50), 0.0
			for i := range rates {
				rates[i] = pareto(s.rng)
				total += rates[i]
			}
			for _, rate := range rates {
				s.add(1000, steady(2*limit*rate/total))
			}
		}},
		"weights": {func(s *sim, limit float64) {
			for i := range 48 {
				s.add([]int64{1000, 2000, 4000}[i%3], steady(3*limit/48))
			}
		}},
		"weights, far too much": {func(s *sim, limit float64) {
			for _, weight := range []int64{1000, 2000, 4000} {
				s.add(weight, steady(6*limit))
			}
		}},
		"just enough": {func(s *sim, limit float64) {
			for range 50 {
				s.add(1000, steady(limit/50))
			}
		}},
	} {
		for _, limit := range []int64{2000, 20000} {
			for _, shards := range []int{1, 8} {
				if limit == 20000 && !extent.Full {
					continue
				}
				t.Run(fmt.Sprint(name, " ", limit, " ", shards), func(t *testing.T) {
					t.Parallel()
					s := newSim(t, limit, shards)
					c.people(s, float64(limit))
					s.run(12, 2)
					r := s.result(10)
					// Seen: J .9971, least .880 at 2,000 permits, use .978.
					if r.jain < 0.995 || r.least < 0.87 || r.least < 0.935 && limit == 20000 || r.use < 0.965 {
						t.Error("unfair, or permits are wasted")
					}
					t.Logf("%-24s J %.4f  min %.3f  use %.3f  calls %.2f", fmt.Sprint(name, " ", limit, " ", shards),
						r.jain, r.least, r.use, r.calls)
				})
			}
		}
	}
}

// TestSimulatedNewcomer: who comes late is at its part within two windows, and a leaver's part goes
// to the others.
func TestSimulatedNewcomer(t *testing.T) {
	for _, others := range []int{1, 49} {
		for _, shards := range []int{1, 8} {
			t.Run(fmt.Sprint(others, " ", shards), func(t *testing.T) {
				s := newSim(t, 2000, shards)
				for range others {
					s.add(1000, steady(4000/float64(others)))
				}
				late := s.add(1000, func(now int64) float64 {
					if now < 6*simWindow || now >= 10*simWindow {
						return 0
					}
					return 2 * 2000 / float64(others+1)
				})
				s.run(13, 0)
				part := 2000 / float64(others+1)
				var got []float64
				for _, n := range late.perWindow {
					got = append(got, math.Round(100*float64(n)/part)/100)
				}
				rest := int64(0)
				for _, c := range s.clients[:others] {
					rest += c.perWindow[12]
				}
				if got[7] < 0.92 || got[8] < 0.9 || rest < 1940 {
					t.Error("the newcomer is not at its part in its second window, or a leaver's part is wasted")
				}
				t.Logf("newcomer by window: %v; after it left the others have %d", got[6:10], rest)
			})
		}
	}
}

// TestSimulatedInventor: a client with another name for every call.
func TestSimulatedInventor(t *testing.T) {
	for _, limit := range []int64{2000, 5000} {
		for _, shards := range []int{1, 8} {
			if (limit == 5000 || shards == 8) && !extent.Full {
				continue
			}
			t.Run(fmt.Sprint(limit, " ", shards), func(t *testing.T) {
				t.Parallel()
				s := newSim(t, limit, shards)
				for range 49 {
					s.add(1000, steady(1.5*float64(limit)/50))
				}
				liar := s.add(1000, steady(2000))
				liar.newName = true
				s.run(8, 2)
				all := s.result(6)
				s.clients = s.clients[:49]
				others := s.result(6)
				part := float64(liar.admitted) / (6 * float64(limit) / 50)
				if part > 1.5 || all.use < 0.97 || others.jain < 0.99 || others.least < 0.85 {
					t.Error("inventing names pays")
				}
				t.Logf("inventor has %.2f of its part; use %.3f; the others: J %.4f min %.3f", part, all.use,
					others.jain, others.least)
			})
		}
	}
}
