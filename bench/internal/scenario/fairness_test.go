package scenario

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
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
