package register

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Whatever bytes stand in a record, they are refused with a typed error, or a layout whose anchor
// can be told and whose change can be driven, without a panic.
func TestAnyBytesInARecordAreUnreadableOrALayout(t *testing.T) {
	p := offline(t, wanted(100, 3), nil)
	r := p.register
	nodes := p.env.Nodes.Roster().All()
	first, err := shard.New(nil, 7, wanted(100, 3).Spec, shard.Arrange("n:l", 100, 3, nodes))
	if err != nil {
		t.Fatal(err)
	}
	next, err := first.Change(8, shard.Spec{Permits: 50, Window: time.Minute, Algorithm: TokenBucket},
		shard.Arrange("n:l", 50, 2, nodes))
	if err != nil {
		t.Fatal(err)
	}
	rng, read := rand.New(rand.NewPCG(1, 2)), 0
	for _, layout := range []shard.Layout{first, next} {
		layout.Anchor = r.homes()[0]
		blob, err := json.Marshal(layout)
		if err != nil {
			t.Fatal(err)
		}
		for range extent.Some(400) {
			altered := slices.Clone(blob)
			for range rng.IntN(3) {
				altered[rng.IntN(len(altered))] = "0123456789-\"x"[rng.IntN(13)]
			}
			got, err := p.register.decode(script.Record{Exists: true, Epoch: 1, Blob: altered})
			if err != nil {
				if !errors.Is(err, ErrUnreadable) {
					t.Errorf("%q: error of another kind: %v", altered, err)
				}
				continue
			}
			read++
			p.layout.Store(got)
			newDriver(r, *got).layout.Plan(nil)
			if len(r.homes()) == 0 || r.anchorFor(*got).Node == "" {
				t.Errorf("%q: no place for it", altered)
			}
		}
	}
	if read == 0 {
		t.Error("no layout was read")
	}
	if _, err := p.register.decode(script.Record{Blob: make([]byte, script.MaxBlob+1)}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one that is too long: %v", err)
	}
	if blob, err := json.Marshal(first); err != nil {
		t.Fatal(err)
	} else if _, err := r.decode(script.Record{Blob: blob}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one without an anchor: %v", err)
	}
}

// A layout that says where keys are is that of a family, and no other is.
func TestFamiliesAndLimitsHaveLayoutsOfTheirOwn(t *testing.T) {
	r := offline(t, wanted(100, 3), nil).register
	limit, err := shard.New(nil, 7, wanted(100, 3).Spec, shard.Arrange("n:l", 100, 3, r.env.Nodes.Roster().All()))
	if err != nil {
		t.Fatal(err)
	}
	limit = limit.Settle()
	limit.Anchor = r.homes()[0]
	family := limit
	family.Keys = r.firstKeys(wanted(100, 3), nil)
	for _, r.Family = range []bool{false, true} {
		for _, layout := range []shard.Layout{limit, family} {
			blob, err := json.Marshal(layout)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.decode(script.Record{Blob: blob}); errors.Is(err, ErrUnreadable) == (r.Family == (layout.Keys != nil)) {
				t.Errorf("of a family %v, read as one %v: %v", layout.Keys != nil, r.Family, err)
			}
		}
	}
}
