package scenario

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/parts"
)

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
					weights, demands = append(weights, m.Weight), append(demands, m.Demand(limit))
					sum += m.Demand(limit)
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

// TestWorkers: those who work get what they want, the others share the rest; with weights,
// nobody works, and all want all there is. A larger limit has as many permits for each caller.
func TestWorkers(t *testing.T) {
	entitled := func(members []fleet.Member, limit float64) []float64 {
		var weights, demands []float64
		for _, m := range members {
			weights, demands = append(weights, m.Weight), append(demands, m.Demand(limit))
		}
		return parts.Entitled(weights, demands, limit)
	}
	for callers, limit := range map[int]float64{5: 2000, 50: 20_000} {
		members := workerMembers(50, limit, 0)
		equal := limit / float64(len(members))
		for i, part := range entitled(members, limit) {
			want := []float64{1.3, 0.7}[i%2] * equal
			if members[i].Callers != callers || (members[i].Work > 0) != (i%2 == 1) || math.Abs(part-want) > 0.01 {
				t.Errorf("%v a second: %+v is entitled to %v, want %v", limit, members[i], part, want)
			}
		}
	}
	for callers, limit := range map[int]float64{20: 2000, 200: 20_000} {
		members := weightedWorkerMembers(50, limit, 0)
		part := entitled(members, limit)
		if len(members) != 2 || math.Abs(part[0]-limit/4) > 0.01 || math.Abs(part[1]-limit*3/4) > 0.01 {
			t.Errorf("%v a second: two are entitled to %v", limit, part)
		}
		for _, m := range members {
			if m.Callers != callers || m.Work != 0 {
				t.Errorf("%v a second: %+v", limit, m)
			}
		}
	}
}

func TestParetoIsSkewed(t *testing.T) {
	members := paretoMembers(50, 2000, 0)
	var sum, most, least float64 = 0, 0, math.Inf(1)
	for _, m := range members {
		sum, most, least = sum+m.Rate, max(most, m.Rate), min(least, m.Rate)
	}
	if math.Abs(sum-paretoDemand*2000) > 1e-6 || most < 30*least ||
		members[0].Rate < members[1].Rate && members[1].Rate < members[2].Rate && members[2].Rate < members[3].Rate {
		t.Errorf("%v wanted in all, from %v to %v, in order", sum, least, most)
	}
}
