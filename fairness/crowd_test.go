package fairness

import "testing"

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
