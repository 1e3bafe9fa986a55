package scenario

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/parts"
)

// TestFairnessRecord plays what a fleet could have reported, and checks the figures.
func TestFairnessRecord(t *testing.T) {
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second,
		Members: []fleet.Member{{Weight: 1}, {Weight: 1}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for ms := int64(50); ms < 4000; ms += 100 { // ten a second each, in turn denied
		for i := range g.Trails {
			granted := (ms/100 + int64(i)) % 2
			g.Trails[i].Takes = append(g.Trails[i].Takes,
				fleet.Take{At: ms * 1000, End: ms*1000 + 10, Wanted: 1, Granted: granted})
		}
	}
	record, ops, granted := recordOf(c, g, fairnessLead)
	v := record.Judge()
	if granted != 20 || len(ops) != 40 || v.Jain != 1 || v.Used != 1 || v.Least != 1 {
		t.Errorf("%d granted, %d operations, verdict %+v; want 20, 40 and all ones", granted, len(ops), v)
	}
}

// TestPopulations checks what each population is about: that the limit is too
// small for it, before and after the change, and who has what part.
func TestPopulations(t *testing.T) {
	const n, limit, step = 50, 2000.0, time.Second
	for _, p := range populations() {
		members := p.members(n, limit, step)
		for _, at := range []time.Duration{0, 2 * step} {
			var weights, demands []float64
			var sum float64
			for _, m := range members {
				if m.From <= at && (m.To == 0 || at < m.To) {
					weights, demands = append(weights, m.Weight), append(demands, demandOf(m, limit))
					sum += demandOf(m, limit)
				}
			}
			if sum < 1.15*limit {
				t.Errorf("%s: only %v permits a second are wanted %s after the beginning, of %v", p.name, sum, at,
					limit)
			}
			part := parts.Entitled(weights, demands, limit)
			if strings.HasPrefix(p.name, "weights") &&
				(math.Abs(part[1]/part[0]-2) > 1e-3 || math.Abs(part[2]/part[0]-4) > 1e-3) {
				t.Errorf("weights 1:2:4 are entitled to %v", part[:3])
			}
			if p.name == hog && (math.Abs(part[0]-limit/n) > 0.01 || demands[0] != hogDemand*limit/n) {
				t.Errorf("the hog is entitled to %v and wants %v", part[0], demands[0])
			}
			for i, m := range members {
				if (m.Callers > 0) != p.waits {
					t.Errorf("%s: a member has %d callers that wait", p.name, m.Callers)
				}
				if steady := strings.HasSuffix(p.name, "steady"); m.Even != steady ||
					steady && math.Abs(demands[i]/part[i]-steadyDemand) > 1e-3 {
					t.Errorf("%s: a member is entitled to %v and wants %v, evenly %v", p.name, part[i], demands[i],
						m.Even)
				}
			}
		}
		settles := 0
		for i, m := range members {
			if p.settles != nil && p.settles(i, len(members)) {
				settles++
				if m.To != 0 {
					t.Errorf("%s: member %d leaves and is waited for", p.name, i)
				}
			}
		}
		if (p.settles != nil) != (settles > 0) {
			t.Errorf("%s: %d members are waited for", p.name, settles)
		}
	}
}

// demandOf is how many permits a second a member wants, of so many that there are: all
// of them, if it has callers that do not work in between. Of callers that do, the
// time that a permit takes to come, even if there are enough of them, is left out: they ask for a
// little less.
func demandOf(m fleet.Member, limit float64) float64 {
	switch {
	case m.Callers == 0:
		return m.Rate
	case m.Work == 0:
		return limit
	}
	return float64(m.Callers) / m.Work.Seconds()
}
