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
					rest += c.perWindow[11]
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

// TestSimulatedKeptAlive: a client keeps 1,024 invented names alive, with a call now and then, and
// then tenants come that want permits. They have their parts, and so has a tenant that was there
// before.
func TestSimulatedKeptAlive(t *testing.T) {
	const limit, tenants = 50_000, 10
	for _, perWindow := range []float64{0.7, 2} {
		s := newSim(t, limit, 1)
		rate := func(rate float64, from int64) func(int64) float64 {
			return func(now int64) float64 {
				if now < from*simWindow {
					return 0
				}
				return rate
			}
		}
		s.add(1000, steady(3*limit)) // a hog, so that they contend
		s.add(1000, steady(2*limit/tenants))
		for i := range MaxAccounts {
			c := s.add(1000, steady(perWindow))
			c.even, c.due = true, float64(i)/MaxAccounts
		}
		for range tenants {
			s.add(1000, rate(2*limit/tenants, 4))
		}
		s.run(12, 8)
		use, part := int64(0), float64(4*(limit-MaxAccounts*perWindow)/(tenants+2))
		for _, c := range s.clients {
			use += c.admitted
		}
		old := float64(s.clients[1].admitted) / part
		least := old
		for _, c := range s.clients[len(s.clients)-tenants:] {
			least = min(least, float64(c.admitted)/part)
		}
		t.Logf("%.1f calls a window: the least tenant has %.2f of its part, the old one %.2f, use %.3f", perWindow,
			least, old, float64(use)/(4*limit))
		if least < 0.9 || float64(use) < 0.97*4*limit {
			t.Error("names that want next to nothing keep the tenants from their parts")
		}
	}
}

// TestSimulatedThousand: a thousand participants, so that a pass over them takes many calls.
func TestSimulatedThousand(t *testing.T) {
	s := newSim(t, 50_000, 1)
	s.add(1000, steady(50_000))
	for range 999 {
		s.add(1000, steady(1.2*50))
	}
	s.run(6, 3) // in the third window the hog has what it took when it was alone, for the last time
	r := s.result(3)
	t.Logf("J %.4f  min %.3f  use %.3f  calls %.2f", r.jain, r.least, r.use, r.calls)
	if r.jain < 0.995 || r.least < 0.8 || r.use < 0.97 || r.calls > 1.5 {
		t.Error("unfair, or permits are wasted")
	}
}

// TestSimulatedCheats: who heeds no hint gains nothing by it, and those who want little but claim
// much keep nothing from the others.
func TestSimulatedCheats(t *testing.T) {
	for name, cheat := range map[string]func(c *simClient){
		"boasters": func(c *simClient) { c.boast, c.rate = 1_000_000_000, steady(20) },
		"hasty":    func(c *simClient) { c.hasty = true },
	} {
		for _, shards := range []int{1, 8} {
			t.Run(fmt.Sprint(name, " ", shards), func(t *testing.T) {
				s := newSim(t, 2000, shards)
				for range 20 {
					s.add(1000, steady(1.5*2000/20))
				}
				for _, c := range s.clients[:4] {
					cheat(c)
				}
				s.run(12, 2)
				all := s.result(10)
				most := 0.0
				for _, c := range s.clients[:4] {
					most = max(most, float64(c.admitted)/(10*2000/20))
				}
				t.Logf("the cheats have up to %.3f of a part; J %.4f  min %.3f  use %.3f", most, all.jain, all.least,
					all.use)
				if most > 1.05 || all.jain < 0.995 || all.least < 0.935 || all.use < 0.945 {
					// seen: 1.02, .9996, .944, .953
					t.Error("cheating pays, or the others suffer")
				}
			})
		}
	}
}

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

// TestSimulatedLumps: a hog that took the whole limit at once has it back at once, a window later.
// Wherever in the ledger's windows that falls, those who come at the same time and want little get
// it soon.
func TestSimulatedLumps(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for phase := range int64(10) {
			s := newSim(t, 400, shards)
			begin := phase * simWindow / 10
			from := func(rate float64) func(int64) float64 {
				return func(now int64) float64 {
					if now < begin {
						return 0
					}
					return rate
				}
			}
			s.add(1000, from(4000)).even = true
			for k := range 4 {
				c := s.add(1000, from(40))
				c.even, c.due = true, float64(k)/4
			}
			s.run(8, 0)
			hog, little := s.clients[0], [8]int64{}
			for _, c := range s.clients[1:] {
				for w, n := range c.perWindow {
					little[w] += n
				}
			}
			t.Logf("%d shards, phase %d: the little have %v of 160 a window, the hog %v", shards, phase, little,
				hog.perWindow)
			if little[2] < 80 || little[3] < 130 || little[4] < 145 { // seen: 87, 135, 149
				t.Error("the hog keeps what it took before the others came")
			}
		}
	}
}

// TestSimulatedWorkers: two participants with weights 1 and 3 whose callers wait, again and again.
// How many of them wait says nothing of what they want: they get their parts all the same, whatever
// they had taken before they were seen to contend, and wherever in the ledger's windows that was.
func TestSimulatedWorkers(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, waiters := range []int64{20, 200} {
			for phase := range int64(4) {
				s := newSim(t, 2000, shards)
				for _, weight := range []int64{1000, 3000} {
					c := s.add(weight, nil)
					c.waiters, c.nap = waiters, epoch+phase*simWindow/4
				}
				s.run(14, 8)
				r := s.result(6)
				t.Logf("%d callers on %d shards, phase %d: from %.3f to %.3f of a part, use %.3f, calls %.2f; %v and "+
					"%v", waiters, shards, phase,
					r.least, r.most, r.use, r.calls, s.clients[0].perWindow, s.clients[1].perWindow)
				if r.least < 0.96 || r.most > 1.02 || r.use < 0.975 { // seen: .975, 1.007, .980
					t.Error("not served by weight, or permits are wasted")
				}
			}
		}
	}
}

// TestSimulatedWork: half of the participants work between one permit and the next, so that they
// want less than their part or little more; the others want all they can get. With a caller alone
// part of its time goes by for want of permits, which cannot be made up for.
func TestSimulatedWork(t *testing.T) {
	for _, people := range []int{4, 40} {
		if people == 40 && !extent.Full {
			continue
		}
		for _, wanted := range []float64{0.3, 0.6, 0.95, 1.2} {
			for _, waiters := range []int64{1, 5, 20} {
				s := newSim(t, 2000, 1)
				for i := range people {
					c := s.add(1000, nil)
					if c.waiters = waiters; i%2 == 0 {
						c.think = int64(float64(waiters) * simWindow * float64(people) / (wanted * 2000))
					}
				}
				s.run(12, 2)
				r := s.result(10)
				t.Logf("%-30s from %.3f to %.3f of a part, use %.3f, calls %.2f",
					fmt.Sprint(people, " with ", waiters, " callers want ", wanted), r.least, r.most, r.use, r.calls)
				if r.use < 0.97 || people == 4 && r.least < 0.925 { // seen: .978, .933
					t.Error("who works gets less than its part, or permits are wasted")
				}
			}
		}
	}
}
