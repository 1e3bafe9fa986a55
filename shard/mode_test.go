package shard_test

import (
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// Another mode moves nothing, but every shard is told of it before the layout is settled.
func TestAnotherModeIsToldToEveryShard(t *testing.T) {
	settled := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	off := settled.Spec
	off.Mode = "off"
	next := must(t)(settled.Change(6, off, settled.Live(), 0))
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
	if again := must(t)(next.Settle(0).Change(7, off, next.Live(), 0)); !again.Settled {
		t.Error("the same mode is told again")
	}
}
