package shard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// The keys of a family lie in few slots, evenly, so that they meet in one call on a cluster.
func TestKeysLieInFewSlots(t *testing.T) {
	l := family(t, 1, shard.Spec{Permits: 1000, Window: time.Second, Algorithm: "sliding_log"}, someNodes(3))
	seen := map[int]int{}
	const keys = 5000
	for i := range keys {
		seen[keyed(t, l, fmt.Sprint("user ", i)).Shards[0].Slot]++
	}
	if len(seen) != shard.KeySlots {
		t.Errorf("%d slots, want %d", len(seen), shard.KeySlots)
	}
	for slot, n := range seen {
		if mean := keys / shard.KeySlots; n > 4*mean || slot%(shard.Slots/shard.KeySlots) != 0 {
			t.Errorf("slot %d has %d, %d in the mean", slot, n, mean)
		}
	}
}

// A family that was declared with its keys in any slot keeps them there: to be in few would move
// every key.
func TestKeysStayInTheirSlots(t *testing.T) {
	s := shard.Spec{Permits: 10, Window: time.Second, Algorithm: "sliding_log"}
	l := family(t, 1, s, someNodes(2))
	l.Keys.Slots = 0
	if next, err := l.Rearrange(2, someNodes(3), 0); err != nil || next.Keys.Slots != 0 || !next.Keys.Moving() {
		t.Fatalf("%+v, %v", next.Keys, err)
	}
	for _, slots := range []int{-1, 3, 1 << 20} {
		l.Keys.Slots = slots
		if err := l.Validate(); err == nil {
			t.Errorf("keys in %d slots are valid", slots)
		}
	}
}
