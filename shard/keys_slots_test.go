package shard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// The keys of a family lie in few slots, evenly, so that they meet in one call on a cluster; the
// shards of one key never meet.
func TestKeysLieInFewSlots(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 7, 64, 256} {
		s := shard.Spec{Permits: 1000, Window: time.Second, Algorithm: "sliding_log"}
		l := family(t, 1, s, shards, someNodes(3))
		seen := map[int]int{}
		const keys = 5000
		for i := range keys {
			k, own := keyed(t, l, fmt.Sprint("user ", i)), map[int]bool{}
			for _, sh := range k.Shards {
				seen[sh.Slot]++
				own[sh.Slot] = true
			}
			if len(own) != shards {
				t.Fatalf("%d shards of one key in %d slots", shards, len(own))
			}
		}
		if len(seen) != shard.KeySlots {
			t.Errorf("%d shards: %d slots, want %d", shards, len(seen), shard.KeySlots)
		}
		for slot, n := range seen {
			if mean := keys * shards / shard.KeySlots; n > 4*mean || slot%(shard.Slots/shard.KeySlots) != 0 {
				t.Errorf("%d shards: slot %d has %d, %d in the mean", shards, slot, n, mean)
			}
		}
	}
}

// A family that was declared with its keys in any slot keeps them there: to be in few would move
// every key.
func TestKeysStayInTheirSlots(t *testing.T) {
	s := shard.Spec{Permits: 10, Window: time.Second, Algorithm: "sliding_log"}
	l := family(t, 1, s, 1, someNodes(2))
	any, err := l.KeysAfter(s, shard.Arrangement{Shards: 1, Nodes: someNodes(2)})
	if err != nil || len(any.Before) != 1 {
		t.Fatalf("%+v, %v: the keys are not said to move", any, err)
	}
	for _, slots := range []int{-1, 3, 1 << 20} {
		l.Keys.Slots = slots
		if err := l.Validate(); err == nil {
			t.Errorf("keys in %d slots are valid", slots)
		}
	}
}
