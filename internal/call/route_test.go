package call

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// fleetOf returns the views of so many participants of a limit, in each of which every shard is
// there and has room.
func fleetOf(participants, shards int) []*view {
	layout := shard.Arrange("n:l", 1e9, shards, []shard.Node{{Name: "a", Weight: 1}})
	record := &register.Reader{}
	record.Participants.Store(int64(participants))
	views := make([]*view, participants)
	for p := range views {
		r := &limit.Routes{Plan: &limit.Plan{}, Record: record}
		for _, i := range shard.Rank(fmt.Sprint("participant-", p), layout) {
			home, terms := &dispatch.Home{Site: shard.Site{Location: shard.Location{Slot: i}}}, &dispatch.Terms{Most: 1}
			sh := (&dispatch.Shard{}).Init(nil, home, nil, script.ShardRef{}, &node.Node{}, terms)
			r.Order = append(r.Order, sh)
		}
		views[p] = NewMember(nil, limit.NewParticipant("p", 1)).View(r)
	}
	return views
}

// used counts the calls at each shard while every participant calls once a rotation,
// with nothing under way.
func used(views []*view, rounds int) []int {
	calls := make([]int, len(views[0].Order))
	for p, t := range views {
		for k := range rounds {
			at := int64(rotation)*int64(k) + int64(p)*int64(rotation)/int64(len(views))
			calls[t.Order[t.choose(at, 1, new(tried))].Slot]++
		}
	}
	return calls
}

func TestIdleCallsSpreadEvenlyOverTheShards(t *testing.T) {
	const rounds = 240
	for _, fleet := range []struct {
		participants, shards int
		busiest              float64 // times the mean
	}{
		{1, 12, 1}, {4, 12, 1}, {48, 12, 1.1}, {48, 24, 1}, {1000, 64, 1.2}, {5000, 12, 1.1},
	} {
		if !extent.Full && fleet.participants >= 1000 { // one goroutine counts
			continue
		}
		calls := used(fleetOf(fleet.participants, fleet.shards), rounds)
		mean := float64(fleet.participants*rounds) / float64(fleet.shards)
		if most := float64(slices.Max(calls)) / mean; most > fleet.busiest+1e-9 {
			t.Errorf("%d participants, %d shards: the busiest shard gets %.2f times the mean: %v", fleet.participants,
				fleet.shards, most, calls)
		}
	}
}

func TestAShardServesABoundedNumberOfProcesses(t *testing.T) {
	for _, fleet := range []struct{ participants, shards, reach int }{
		{1, 64, 64}, {10, 12, 12}, {1000, 12, 3}, {125, 12, 12}, {500, 12, 6}, {10_000, 64, 2}, {5, 1, 1}, {5, 2, 2},
	} {
		v := fleetOf(1, fleet.shards)[0]
		v.Record.Participants.Store(int64(fleet.participants))
		places := map[int]bool{}
		for k := range 1000 {
			places[v.choose(int64(rotation)*int64(k), 1, new(tried))] = true
		}
		if len(places) != fleet.reach {
			t.Errorf("%+v: goes round %d shards", fleet, len(places))
		}
		for i := range places {
			if i >= fleet.reach {
				t.Errorf("%+v: goes to place %d of its order", fleet, i)
			}
		}
	}
}

// Calls at once meet at few shards; when these are done with, every other one is found.
func TestChooseVisitsEveryShardOnce(t *testing.T) {
	for _, participants := range []int64{1, 50, 1000} {
		v := fleetOf(1, 24)[0]
		v.Record.Participants.Store(participants)
		for k := range 50 {
			at := int64(rotation)*int64(k) + 1
			var done tried
			var visited []int
			for i := v.choose(at, 1, &done); i >= 0; i = v.choose(at, 1, &done) {
				done.add(i)
				visited = append(visited, i)
			}
			slices.Sort(visited)
			if len(slices.Compact(visited)) != 24 {
				t.Fatalf("%d participants, rotation %d: visits %v", participants, k, visited)
			}
			busy := map[int]bool{}
			for range 100 {
				i := v.choose(at, 1, new(tried))
				v.Order[i].Unanswered.Add(1)
				busy[i] = true
			}
			if !busy[0] || !busy[1] || len(busy) > 2*preferred {
				t.Fatalf("%d participants: a hundred calls at once go to the places %v", participants, busy)
			}
			for _, sh := range v.Order {
				sh.Unanswered.Store(0)
			}
		}
	}
}

// What the rotation has come to does not matter while calls can meet in batches.
func TestBusyCallsStayTogether(t *testing.T) {
	v := fleetOf(1, 24)[0]
	for k := range 100 {
		for i := range preferred {
			v.Order[i].Unanswered.Store(8)
		}
		for range 10 {
			i := v.choose(int64(rotation)*int64(k), 1, new(tried))
			if i >= preferred {
				t.Fatalf("rotation %d: a call goes to place %d, where it is alone", k, i)
			}
			v.Order[i].Unanswered.Add(1)
		}
	}
}

// What one shard tells is not forgotten for another that tells nothing.
func TestTheShortestWaitThatWasToldCounts(t *testing.T) {
	seen := attempt{retry: dispatch.UnknownRetry}
	for _, told := range []struct{ retry, want time.Duration }{{7, 7}, {9, 7}, {3, 3}, {0, 0}} {
		if seen.told(told.retry); seen.retry != told.want {
			t.Errorf("after %d: %d, want %d", told.retry, seen.retry, told.want)
		}
	}
}

// Whoever waits for a limit looks again after as long as it is believed to lack permits. If all of
// its shards were away, that was no time at all, and the line took a whole processor.
func TestALimitWhoseShardsAreAwayIsNotAskedWithoutRest(t *testing.T) {
	r := &limit.Routes{Plan: &limit.Plan{Limit: limit.Limit{Permits: 1, Per: time.Minute}}}
	if long := Believed(r); long < 100*time.Millisecond {
		t.Errorf("a waiter sleeps %s", long)
	}
}
