package shard_test

import (
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// A change is later than a declaration and every change before it; a repair is later than neither.
func TestALaterChangeOutranksWhateverRepairedTheRecord(t *testing.T) {
	declared := must(t)(shard.New(nil, 100, spec(30), on("a", 30)))
	first := must(t)(declared.Change(200, spec(20), on("a", 20)))
	second := must(t)(first.Settle().Change(300, spec(10), on("b", 10)))
	ascending := []shard.Layout{
		declared,
		must(t)(declared.Renumber(700)),
		must(t)(shard.New(nil, 800, spec(40), on("c", 40))), // by a process that found nothing
		must(t)(declared.Merge(900, first)),
		first,
		must(t)(first.Merge(600)),
		must(t)(first.Settle().Renumber(650)),
		second,
		must(t)(second.Merge(1000, first, declared)),
	}
	for i, l := range ascending {
		for k, other := range ascending {
			if got := l.Outranks(other); got != (i > k) {
				t.Errorf("%d outranks %d: %v", i, k, got)
			}
		}
		if l.Outranks(l.Settle()) || l.Settle().Outranks(l) {
			t.Errorf("%d: whether a layout is settled makes no difference", i)
		}
	}
}

// Another mode moves nothing, but every shard is told of it before the layout is settled.
func TestAnotherModeIsToldToEveryShard(t *testing.T) {
	settled := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	off := settled.Spec()
	off.Mode = "off"
	next := must(t)(settled.Change(6, off, settled.Live()))
	if next.Settled {
		t.Fatal("no shard was told")
	}
	step := next.Plan([]shard.Observation{{Seen: true, Epoch: 6, Share: 10, Start: 10}, {}})
	if step.Done {
		t.Error("done although one shard was not told")
	}
	step = next.Plan([]shard.Observation{{Seen: true, Epoch: 6, Share: 10, Start: 10},
		{Seen: true, Epoch: 6, Share: 20, Start: 20}})
	if !step.Done || step.Raise[0] != 0 || step.Raise[1] != 0 {
		t.Errorf("all were told: %+v", step)
	}
	if again := must(t)(next.Settle().Change(7, off, next.Live())); !again.Settled {
		t.Error("the same mode is told again")
	}
}
