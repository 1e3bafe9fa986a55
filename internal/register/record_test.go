package register

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Whatever bytes stand in a record, they are refused with a typed error, or a layout whose change
// can be driven, without a panic.
func TestAnyBytesInARecordAreUnreadableOrALayout(t *testing.T) {
	p := offline(t, wanted(100, 3), nil)
	r := p.register
	nodes := p.env.Nodes.Roster().All()
	first, err := shard.New(nil, 7, wanted(100, 3).Spec, shard.Arrange("n:l", 100, 3, nodes))
	if err != nil {
		t.Fatal(err)
	}
	next, err := first.Change(8, shard.Spec{Permits: 50, Window: time.Minute, Algorithm: TokenBucket},
		shard.Arrange("n:l", 50, 2, nodes), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	rng, read := rand.New(rand.NewPCG(1, 2)), 0
	for _, layout := range []shard.Layout{first, next} {
		text, err := r.encode(&layout)
		if err != nil {
			t.Fatal(err)
		}
		for range extent.Some(400) {
			altered := []byte(text)
			for range rng.IntN(3) {
				altered[rng.IntN(len(altered))] = "0123456789-\"x"[rng.IntN(13)]
			}
			got, err := r.decode(string(altered))
			if err != nil {
				if !errors.Is(err, ErrUnreadable) {
					t.Errorf("%q: error of another kind: %v", altered, err)
				}
				continue
			}
			read++
			p.layout.Store(got)
			got.Plan(nil)
		}
	}
	if read == 0 {
		t.Error("no layout was read")
	}
	if _, err := r.decode(strings.Repeat("x", script.MaxVoteValue+1)); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one that is too long: %v", err)
	}
}

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
