package scenario

import (
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
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second, Members: []fleet.Member{{Weight: 1}, {Weight: 1}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for ms := int64(50); ms < 4000; ms += 100 { // ten a second each, in turn denied
		for i := range g.Trails {
			granted := (ms/100 + int64(i)) % 2
			g.Trails[i].Takes = append(g.Trails[i].Takes, fleet.Take{At: ms * 1000, End: ms*1000 + 10, Wanted: 1, Granted: granted})
		}
	}
	record, ops, granted := run.record(c, g, fairnessLead)
	v := record.Judge()
	if granted != 20 || len(ops) != 40 || v.Jain != 1 || v.Used != 1 || v.Least != 1 {
		t.Errorf("%d granted, %d operations, verdict %+v; want 20, 40 and all ones", granted, len(ops), v)
	}
}

func TestGroupOf(t *testing.T) {
	c := fleet.Crowd{Permits: 1000, Per: time.Second}
	for want, m := range map[string]fleet.Member{
		"the newcomer": {Rate: 600, From: 1}, "the hog": {Rate: 600}, "the others": {Rate: 10},
	} {
		if got := groupOf(m, c); got != want {
			t.Errorf("%+v is of %q, want %q", m, got, want)
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
		population string
		limit      int64
		want       [][]*sharer
	}{
		{hog, 10, [][]*sharer{{one, other}, {eight}, {crammed}}},
		{hog, 100, [][]*sharer{{one}, {eight}}},
		{"equal", 10, [][]*sharer{{one, other}, {eight}}},
	} {
		if got := run.groups(population{name: c.population}, c.limit); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s at %d: %d groups, want %d", c.population, c.limit, len(got), len(c.want))
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
		participants: 2, processes: 1, window: 100 * time.Millisecond, tick: 10 * time.Millisecond, windows: 2, limits: []int64{1000},
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
	if err := run.measurePopulations(t.Context(), env); err == nil || strings.Count(err.Error(), "no crowd is of the kind") != 2 {
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
