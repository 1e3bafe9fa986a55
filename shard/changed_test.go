package shard_test

import (
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// A change is later than a declaration and every change before it; a repair is later than neither.
func TestALaterChangeOutranksWhateverRepairedTheRecord(t *testing.T) {
	declared := must(t)(shard.New(100, spec(30), on("a", 30)))
	first := must(t)(declared.Change(200, spec(20), on("a", 20)))
	second := must(t)(first.Settle().Change(300, spec(10), on("b", 10)))
	ascending := []shard.Layout{
		declared,
		must(t)(declared.Renumber(700)),
		must(t)(shard.New(800, spec(40), on("c", 40))), // by a process that found nothing
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
