package register

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// A layout that says where keys are is that of a family, and no other is.
func TestFamiliesAndLimitsHaveLayoutsOfTheirOwn(t *testing.T) {
	r := offline(t, wanted(100, 3), nil).register
	nodes := r.env.Nodes.Roster().All()
	limit, err := shard.New(nil, 7, wanted(100, 3).Spec, shard.Arrange("n:l", 100, 3, nodes))
	if err != nil {
		t.Fatal(err)
	}
	family, err := shard.NewFamily(nil, 7, wanted(100, 3).Spec, limit.Shards, nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r.Family = range []bool{false, true} {
		for _, layout := range []shard.Layout{limit, family} {
			text, err := json.Marshal(layout)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.decode(string(text)); errors.Is(err, ErrUnreadable) == (r.Family == (layout.Keys != nil)) {
				t.Errorf("of a family %v, read as one %v: %v", layout.Keys != nil, r.Family, err)
			}
		}
	}
}
