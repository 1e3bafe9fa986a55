package shard_test

import (
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// What is remembered of a family was all under a fence only if nothing of it was without, and
// nothing of it is unknown.
func TestAllThatIsRememberedIsUnderAFence(t *testing.T) {
	over := func(life string) shard.Arrangement {
		return shard.Arrangement{Shards: 1, Slots: shard.KeySlots,
			Nodes: []shard.Node{{Name: "a", Weight: 1, Life: life}}}
	}
	for name, c := range map[string]struct {
		keys *shard.Keys
		want bool
	}{
		"no keys":  {},
		"no fence": {keys: &shard.Keys{Arrangement: over("")}},
		"a fence":  {keys: &shard.Keys{Arrangement: over("m-1")}, want: true},
		"always": {keys: &shard.Keys{Arrangement: over("m-2"),
			Before: []shard.Past{{Arrangement: over("m-1")}}}, want: true},
		"switched on":    {keys: &shard.Keys{Arrangement: over("m-1"), Before: []shard.Past{{Arrangement: over("")}}}},
		"switched off":   {keys: &shard.Keys{Arrangement: over(""), Before: []shard.Past{{Arrangement: over("m-1")}}}},
		"some forgotten": {keys: &shard.Keys{Arrangement: over("m-1"), Cut: true}},
	} {
		if got := c.keys.Fenced(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
