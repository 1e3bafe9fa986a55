package shard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

// family returns the settled layout of a family.
func family(t interface{ Fatal(...any) }, epoch int64, s shard.Spec, nodes []shard.Node) shard.Layout {
	l, err := shard.New(nil, epoch, s, on("record", int(s.Permits)))
	if err != nil {
		t.Fatal(err)
	}
	if l.Keys, err = l.KeysAfter(s, shard.Arrangement{Slots: shard.KeySlots, Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	return l
}

// succeed returns the layout that follows l in the family's record.
func succeed(t interface{ Fatal(...any) }, l shard.Layout, s shard.Spec, nodes []shard.Node) shard.Layout {
	keys, err := l.KeysAfter(s, shard.Arrangement{Slots: l.Keys.Slots, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	l.Keys = keys
	next, err := l.Change(l.Epoch+1, s, on("record", int(s.Permits)))
	if err != nil {
		t.Fatal(err)
	}
	return next.Settle()
}

func keyed(t interface{ Fatal(...any) }, l shard.Layout, id string) shard.Layout {
	k, err := l.ForKey(id, shard.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Validate(); err != nil {
		t.Fatal(err)
	}
	return k
}

// A change of a family's limit moves no key, whatever it changes but the algorithm. A key that
// moves counts on nothing that an old shard may hold.
func TestAKeyMovesOnlyWithItsSite(t *testing.T) {
	l := family(t, 5, spec(236), someNodes(3))
	for _, change := range []func(*shard.Spec){
		func(s *shard.Spec) { s.Permits = 10 },
		func(s *shard.Spec) { s.Window = time.Minute },
		func(s *shard.Spec) { s.Permits, s.Mode = 300, "off" },
	} {
		s := l.Spec()
		change(&s)
		l = succeed(t, l, s, someNodes(3))
		if k := keyed(t, l, "key"); !k.Settled || k.Permits != s.Permits || k.Window != s.Window || k.Mode != s.Mode {
			t.Errorf("%+v", k)
		}
	}
	s := l.Spec()
	s.Algorithm = "another"
	k := keyed(t, succeed(t, l, s, someNodes(3)), "key")
	if k.Settled || len(k.Shards) != 2 || k.Shards[0].Start != 0 || k.Shards[1].Start != shard.Unknown ||
		k.Shards[1].Algorithm == "another" {
		t.Fatalf("%+v", k)
	}
	for i, floor := range k.Opening(false) {
		if floor > 0 {
			t.Errorf("%+v may be raised to %d before any shard was seen", k.Shards[i], floor)
		}
	}
}

// Whatever the order of changes, a key that is not settled lists every place where it may hold
// something.
func TestKeysOfAFamilyForgetNoPlaceWhileTheyMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(20)
		l := family(t, 1, s, someNodes(2))
		held := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			for _, s := range keyed(t, l, "k").Live() {
				held[fmt.Sprint(s.Slot, s.Node, s.Algorithm)] = true
			}
			if rapid.Bool().Draw(t, "permits") {
				s.Permits = rapid.Int64Range(1, 30).Draw(t, "permits to")
			}
			s.Algorithm = rapid.SampledFrom([]string{"slidinglog", "slidinglog", "counter"}).Draw(t, "algorithm")
			l = succeed(t, l, s, someNodes(rapid.IntRange(1, 4).Draw(t, "nodes")))
			k := keyed(t, l, "k")
			listed := map[string]bool{}
			for _, s := range k.Shards {
				listed[fmt.Sprint(s.Slot, s.Node, s.Algorithm)] = true
			}
			for at := range held {
				if !listed[at] {
					t.Fatalf("%s is forgotten by %+v", at, k)
				}
			}
			if data, err := json.Marshal(l); err != nil {
				t.Fatal(err)
			} else {
				var back shard.Layout
				if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(keyed(t, back, "k"), k) {
					t.Fatalf("stored as %s: %v", data, err)
				}
			}
		}
	})
}

func TestOnlySoManyArrangementsAreLeftAtOnce(t *testing.T) {
	l := family(t, 1, spec(10), someNodes(1))
	for i := range 17 {
		keys, err := l.KeysAfter(l.Spec(), shard.Arrangement{Nodes: someNodes(i + 2)})
		if (err != nil) != (i == 16) || err != nil && !errors.Is(err, shard.ErrTooManyMoves) {
			t.Fatalf("%d: %v", i, err)
		}
		if err == nil {
			l.Epoch, l.Keys = l.Epoch+1, keys
		}
	}
}

// Layouts that become one may each list as many arrangements as there can be. None of these is
// forgotten: a key may hold something under each.
func TestMergedLayoutsForgetNoArrangement(t *testing.T) {
	first := family(t, 1, spec(10), someNodes(1))
	full := func(at int) shard.Layout {
		l := first
		for i := range 16 {
			l = succeed(t, l, spec(10), []shard.Node{{Name: fmt.Sprintf("node %d:%d", at, i), Weight: 1}})
		}
		return l
	}
	layouts := []shard.Layout{full(0), full(1), full(2), full(3)}
	merged := must(t)(layouts[0].Merge(1000, layouts[1:]...))
	key := keyed(t, merged.Settle(), "k")
	for i, l := range layouts {
		for _, p := range l.Keys.Before {
			for _, n := range p.Nodes {
				if !slices.ContainsFunc(key.Shards, func(s shard.Shard) bool { return s.Node == n.Name }) {
					t.Errorf("layout %d: nothing is on %s", i, n.Name)
				}
			}
		}
	}
	if n := len(merged.Keys.Before); n != 4*16+1 {
		t.Errorf("%d arrangements: what all had in common stands there more than once", n)
	}
	again := must(t)(merged.Merge(2000))
	if len(again.Keys.Before) > len(merged.Keys.Before)+1 {
		t.Errorf("%d arrangements after %d", len(again.Keys.Before), len(merged.Keys.Before))
	}
	back := shard.Layout{}
	if data, err := json.Marshal(merged.Settle()); err != nil || json.Unmarshal(data, &back) != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := merged.KeysAfter(spec(10), shard.Arrangement{Nodes: someNodes(2)}); err != nil {
		t.Errorf("arranged anew: %v", err)
	}
	for i := 4; i < 8; i++ {
		layouts = append(layouts, full(i))
	}
	if _, err := layouts[0].Merge(1000, layouts[1:]...); !errors.Is(err, shard.ErrTooManyMoves) {
		t.Errorf("more than a record may list: %v", err)
	}
}

// goldenKeys is the record of a family whose keys move to another node.
const goldenKeys = `{"v":1,"epoch":6,"settled":true,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":0,"shards":[{"slot":1,"node":"record","share":30}],"keys":{"slots":32,"nodes":[{"name":"10.0.0.0:6379","weight":1},{"name":"10.0.0.1:6379","weight":1}],"before":[{"slots":32,"nodes":[{"name":"10.0.0.0:6379","weight":1}],"epoch":5,"algorithm":"slidinglog"}],"longest_ns":2000000000,"since_us":17,"since_at":"n"}}`

func TestGoldenKeys(t *testing.T) {
	l := succeed(t, family(t, 5, spec(30), someNodes(1)), spec(30), someNodes(2))
	l.Keys.Since, l.Keys.SinceAt = 17, "n"
	got, err := json.Marshal(l)
	if err != nil || string(got) != goldenKeys {
		t.Errorf("stored as %s, %v\nwant      %s", got, err, goldenKeys)
	}
}

// The limit that comes with the calls for a key concerns no other. While the key moves, nothing is
// known of what its shards have: another limit may have come before.
func TestALimitThatComesWithCallsIsTheKeys(t *testing.T) {
	came := shard.Terms{Permits: 40, Window: time.Minute, Revision: 7, Mode: "off"}
	l := family(t, 5, spec(10), someNodes(1))
	k, err := l.ForKey("paid", came)
	if err != nil || !k.Settled || k.Permits != 40 || k.Window != time.Minute || k.Revision != 7 || k.Mode != "off" ||
		k.Live()[0].Share != 40 {
		t.Errorf("%+v (%v)", k, err)
	}
	if k := keyed(t, l, "free"); k.Permits != 10 || k.Revision != 0 {
		t.Errorf("another key has %+v", k)
	}
	l = succeed(t, l, spec(20), someNodes(2)[1:])
	if k, err = l.ForKey("paid", came); err != nil || k.Settled || k.Permits != 40 || len(k.Shards) != 2 {
		t.Fatalf("on its way: %+v (%v)", k, err)
	}
	if k.Shards[0].Start != 0 || k.Shards[1].Start != shard.Unknown {
		t.Errorf("what the shards of %+v have", k)
	}
}

// For how long a grant may count is remembered, however the family's limit changes.
func TestTheLongestLimitOfAFamilyIsRemembered(t *testing.T) {
	long := spec(10)
	long.Window = time.Hour
	l := family(t, 5, long, someNodes(1))
	l = succeed(t, l, spec(10), someNodes(2))
	merged := must(t)(l.Merge(9, family(t, 6, spec(10), someNodes(2))))
	for name, is := range map[string]time.Duration{
		"changed": l.Keys.Longest, "forgotten": l.Keys.Forget().Longest, "merged": merged.Keys.Longest,
		"counted for takeovers": l.GrantsLast(),
	} {
		if is != 2*time.Hour {
			t.Errorf("%s: %s", name, is)
		}
	}
	short := *l.Keys
	short.Longest = time.Second
	if l.Keys = &short; l.Validate() == nil {
		t.Error("grants of the limit itself count for longer")
	}
}
