package scenario

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/parts"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
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

// TestFairnessYardstick: beside what one shard gave stands what a perfect division
// would have given, once.
func TestFairnessYardstick(t *testing.T) {
	run := &fairnessRun{Sheet: newSheet(t), window: time.Second, windows: 2, limits: []int64{10}}
	run.describe()
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second,
		Members: []fleet.Member{{Weight: 1}, {Weight: 1}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for second := range int64(4) { // both want 10; one is never served, the other always
		for i := range g.Trails {
			at := second * 1_000_000
			g.Trails[i].Takes = append(g.Trails[i].Takes,
				fleet.Take{At: at, End: at + 10, Wanted: 10, Granted: 10 * int64(i)})
		}
	}
	for _, s := range []*sharer{{name: "script", kind: fleet.FirstCome, shards: 1},
		{name: "one", kind: fleet.Coalesced, shards: 1}, {name: "eight", kind: fleet.Coalesced, shards: 8}} {
		run.note(population{name: "both"}, 0, 10, s, share{crowd: c, gathered: g})
	}
	got := map[string]float64{"jain": 0.5, "least": 0, "highest": 2, "used": 100}
	want := map[string]map[string]float64{
		"script": got, "one": got, "eight": got, perfectDivision: {"jain": 1, "least": 1, "highest": 1, "used": 100},
	}
	for series, figures := range want {
		for metric, value := range figures {
			if got := run.rounds[point{series, 0, metric + "-10"}]; len(got) != 1 || got[0] != value {
				t.Errorf("%s of %s is %v, want %v once", metric, series, got, value)
			}
		}
	}
	if got := run.rounds[point{perfectDivision, 0, "calls-10"}]; got != nil {
		t.Errorf("a perfect division has %v calls", got)
	}
}

// TestCourse: the hog and the others are drawn, each over its part.
func TestCourse(t *testing.T) {
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second,
		Members: []fleet.Member{{Weight: 1, Rate: 100}, {Weight: 1, Rate: 5}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for ms := int64(0); ms < 4000; ms += 100 { // one takes all
		for i, granted := range []int64{1, 0} {
			g.Trails[i].Takes = append(g.Trails[i].Takes,
				fleet.Take{At: ms * 1000, End: ms*1000 + 10, Wanted: 1, Granted: granted})
		}
	}
	chart := course("one", c, g)
	if chart.Name != "course-hog-one" || len(chart.Lines) != 2 || chart.Lines[0].Group != "the hog" ||
		!slices.Equal(chart.Lines[0].Y, slices.Repeat([]float64{2}, 7)) || chart.Lines[1].Y[3] != 0 {
		t.Errorf("%+v", chart)
	}
}

func TestGroups(t *testing.T) {
	one := &sharer{kind: fleet.Coalesced, shards: 1, nodes: 1}
	eight := &sharer{kind: fleet.Coalesced, shards: 8, nodes: 4}
	other := &sharer{kind: fleet.FirstCome, shards: 1, nodes: 1}
	run := &fairnessRun{limits: []int64{10, 100}, sharers: []*sharer{one, eight, other}}
	for _, c := range []struct {
		population population
		limit      int64
		want       [][]*sharer
	}{
		{population{name: hog}, 10, [][]*sharer{{one, other}, {eight}}},
		{population{name: hog}, 100, [][]*sharer{{one}, {eight}}},
		{population{name: "equal"}, 10, [][]*sharer{{one, other}, {eight}}},
		{population{name: batch, waits: true}, 10, [][]*sharer{{one}, {eight}, {other}}},
		{population{name: batch, waits: true}, 100, [][]*sharer{{one}, {eight}}},
		{population{name: "workers, weights", waits: true}, 10, [][]*sharer{{one}, {eight}}},
	} {
		if got := run.groups(c.population, c.limit); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s at %d: %d groups, want %d", c.population.name, c.limit, len(got), len(c.want))
		}
	}
}

// TestFairnessKeepsWhatItHas: who cannot be measured does not cost the others of the
// same population their figures, nor those of the next.
func TestFairnessKeepsWhatItHas(t *testing.T) {
	servertest.Require(t)
	run := &fairnessRun{Sheet: newSheet(t), participants: 2, processes: 1, window: 100 * time.Millisecond, windows: 2,
		tries: 1, limits: []int64{1000}, populations: []population{{name: "one", members: populations()[1].members},
			{name: "two", members: populations()[1].members}}}
	run.describe()
	defer run.close()
	for _, kind := range []fleet.Kind{"odd", fleet.FirstCome} {
		s := &sharer{name: string(kind), kind: kind, shards: 1, nodes: 1}
		run.sharers = append(run.sharers, s)
		var err error
		if s.servers, err = run.start(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if s.crowd, err = fleet.Start(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.measureAll(t.Context()); err == nil || strings.Count(err.Error(), "odd: a worker is not ready") != 2 {
		t.Errorf("err %v does not name who could not be measured", err)
	}
	seen := make(map[float64]bool)
	for p := range run.rounds {
		if seen[p.x] = true; p.series != string(fleet.FirstCome) {
			t.Errorf("%s of %q was found", p.metric, p.series)
		}
	}
	if len(seen) != 2 {
		t.Errorf("found %v, want both populations", seen)
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

// TestWorkers: those who work get what they want, the others share the rest; with weights,
// nobody works, and all want all there is. A larger limit has as many permits for each caller.
func TestWorkers(t *testing.T) {
	entitled := func(members []fleet.Member, limit float64) []float64 {
		var weights, demands []float64
		for _, m := range members {
			weights, demands = append(weights, m.Weight), append(demands, demandOf(m, limit))
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
