package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestFairnessRecord plays what a fleet could have reported, and checks the figures.
func TestFairnessRecord(t *testing.T) {
	run := &fairnessRun{size: fairnessSize{window: time.Second, windows: 2}}
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
	record, ops, granted := run.record(c, g, fairnessLead)
	v := record.Judge()
	if granted != 20 || len(ops) != 40 || v.Jain != 1 || v.Used != 1 || v.Least != 1 {
		t.Errorf("%d granted, %d operations, verdict %+v; want 20, 40 and all ones", granted, len(ops), v)
	}
}

// TestLeastDisturbed: what a machine that stood still has disturbed is measured again, and how
// still it stood says which attempt counts.
func TestLeastDisturbed(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		still []time.Duration // of each attempt; below 0: it fails
		best  time.Duration
		tries int
	}{
		"quiet":           {[]time.Duration{10}, 10, 1},
		"again":           {[]time.Duration{11, 10}, 10, 2},
		"never quiet":     {[]time.Duration{30, 12, 20}, 12, 3},
		"fails":           {[]time.Duration{-1}, -1, 1},
		"fails the again": {[]time.Duration{30, -1}, -1, 2},
	} {
		best, tries := leastDisturbed(10, 3, func(number int) fairnessTry {
			next := fairnessTry{still: c.still[number-1]}
			if next.still < 0 {
				next.of = []fairnessShare{{err: failed}}
			}
			return next
		})
		if best.still != c.best || tries != c.tries || (best.err() != nil) != (c.best < 0) {
			t.Errorf("%s: %v after %d, %v", name, best.still, tries, best.err())
		}
	}
}

// TestFairnessYardstick: beside what one shard gave stands what a perfect division
// would have given, once.
func TestFairnessYardstick(t *testing.T) {
	run := &fairnessRun{size: fairnessSize{window: time.Second, windows: 2}, found: newFindings(),
		result: &report.Result{}}
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
		run.note(population{name: "both"}, 0, 10, s, fairnessShare{crowd: c, gathered: g})
	}
	run.found.addTo(run.result)
	got := map[string]float64{"jain": 0.5, "least": 0, "highest": 2, "used": 100}
	want := map[string]map[string]float64{
		"script": got, "one": got, "eight": got, perfectDivision: {"jain": 1, "least": 1, "highest": 1, "used": 100},
	}
	seen := 0
	for _, p := range run.result.Points {
		value, ok := want[p.Series][strings.TrimSuffix(p.Metric, "-10")]
		switch {
		case !ok && p.Series == perfectDivision:
			t.Errorf("a perfect division has %s", p.Metric)
		case ok:
			if seen++; len(p.Stat.Rounds) != 1 || p.Stat.Median != value {
				t.Errorf("%s of %s is %v, want %v once", p.Metric, p.Series, p.Stat.Rounds, value)
			}
		}
	}
	if seen != 16 {
		t.Errorf("%d points, want 16", seen)
	}
}

func TestGroupOf(t *testing.T) {
	c := fleet.Crowd{Permits: 1000, Per: time.Second}
	for want, m := range map[string]fleet.Member{
		"the newcomer": {Rate: 600, From: 1}, "the hog": {Rate: 600}, "the others": {Rate: 10},
		"weight 1": {Callers: 5, Weight: 1}, "weight 2.5": {Callers: 5, Weight: 2.5},
		"weight 1, works": {Callers: 5, Weight: 1, Work: 1},
	} {
		if got := groupOf(m, c); got != want {
			t.Errorf("%+v is of %q, want %q", m, got, want)
		}
	}
}

// TestPictureOfWaiters: the parts of those who wait are drawn from nothing to some times
// what is due, those of others over a range that only a logarithm can show.
func TestPictureOfWaiters(t *testing.T) {
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second,
		Members: []fleet.Member{{Weight: 1, Callers: 1}, {Weight: 3, Callers: 1}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for ms := int64(0); ms < 4000; ms += 100 { // both want all; two get half each
		for i := range g.Trails {
			g.Trails[i].Takes = append(g.Trails[i].Takes, fleet.Take{At: ms * 1000, End: ms * 1000, Wanted: 1},
				fleet.Take{At: ms * 1000, End: ms*1000 + 10, Granted: ms / 100 % 2})
		}
	}
	for _, waits := range []bool{false, true} {
		run := &fairnessRun{result: &report.Result{}}
		run.picture(population{name: weightedBatch, waits: waits}, &sharer{name: "one"}, c, g)
		chart := run.result.Charts[0]
		if chart.LogY == waits || waits != (chart.Floor == 0) || len(chart.Lines) != 2 ||
			chart.Name != "course-workers-weights-one" {
			t.Errorf("waits %v: chart %+v", waits, chart)
		}
		for i, want := range []float64{2, 0.667} {
			line := chart.Lines[i]
			if line.Group != []string{"weight 1", "weight 3"}[i] || len(line.Y) != 7 || line.Y[3] != want {
				t.Errorf("waits %v: line %+v, want %v", waits, line, want)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	one := &sharer{kind: fleet.Coalesced, shards: 1, nodes: 1}
	eight := &sharer{kind: fleet.Coalesced, shards: 8, nodes: 4}
	crammed := &sharer{kind: fleet.Coalesced, shards: 8, nodes: 1}
	other := &sharer{kind: fleet.RedisRate, shards: 1, nodes: 1}
	run := &fairnessRun{size: fairnessSize{limits: []int64{10, 100}}, sharers: []*sharer{one, eight, crammed, other}}
	for _, c := range []struct {
		population population
		limit      int64
		want       [][]*sharer
	}{
		{population{name: hog}, 10, [][]*sharer{{one, other}, {eight}, {crammed}}},
		{population{name: hog}, 100, [][]*sharer{{one}, {eight}}},
		{population{name: "equal"}, 10, [][]*sharer{{one, other}, {eight}}},
		{population{name: batch, waits: true}, 10, [][]*sharer{{one}, {eight}, {other}}},
		{population{name: batch, waits: true}, 100, [][]*sharer{{one}, {eight}}},
		{population{name: weightedBatch, waits: true}, 10, [][]*sharer{{one}, {eight}}},
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
	result := &report.Result{}
	env := Env{Redis: "redis-server", Lineup: rival.Everybody(), Progress: t.Logf}
	run := &fairnessRun{found: newFindings(), result: result, size: fairnessSize{
		participants: 2, processes: 1, window: 100 * time.Millisecond, tick: 10 * time.Millisecond, windows: 2,
		limits:      []int64{1000},
		populations: []population{{name: "one", members: equalMembers}, {name: "two", members: equalMembers}},
	}}
	defer run.close()
	for _, kind := range []fleet.Kind{"odd", fleet.FirstCome} {
		s := &sharer{name: string(kind), kind: kind, shards: 1, nodes: 1}
		run.sharers = append(run.sharers, s)
		var err error
		if s.servers, err = env.startFarm(t.Context(), result, 1); err != nil {
			t.Fatal(err)
		}
		if s.crowd, err = fleet.Start(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.measurePopulations(t.Context(), env); err == nil ||
		strings.Count(err.Error(), "no crowd is of the kind") != 2 {
		t.Errorf("err %v does not name who could not be measured", err)
	}
	run.found.addTo(result)
	seen := make(map[float64]bool)
	for _, p := range result.Points {
		if seen[p.X] = true; p.Series != string(fleet.FirstCome) && p.Metric != fairnessMetric("machine", 1000) {
			t.Errorf("%s of %q was found", p.Metric, p.Series)
		}
	}
	if len(seen) != 2 {
		t.Errorf("found %v, want both populations", seen)
	}
}
