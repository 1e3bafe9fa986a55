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

// The greater one of each shard's two shares sums to the greater limit, so shards may change over
// one by one.
func TestSharesOfTwoLimitsAreNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 300), rapid.SampledFrom([]int{8, 16, 64, 256})).Draw(t, "shards")
		permits := rapid.OneOf(rapid.Int64Range(0, 4*int64(n)), rapid.Int64Range(0, shard.MaxPermits))
		a, b := permits.Draw(t, "before"), permits.Draw(t, "after")
		var sum int64
		then := shard.Split(b, n)
		for i, was := range shard.Split(a, n) {
			sum += max(was, then[i])
		}
		if sum != max(a, b) {
			t.Fatalf("%d and then %d over %d shards: the greater shares sum to %d", a, b, n, sum)
		}
	})
}

// family returns the settled layout of a family.
func family(t interface{ Fatal(...any) }, epoch int64, s shard.Spec, shards int, nodes []shard.Node) shard.Layout {
	l, err := shard.New(nil, epoch, s, on("record", int(s.Permits)))
	if err != nil {
		t.Fatal(err)
	}
	if l.Keys, err = l.KeysAfter(s,
		shard.Arrangement{Shards: shards, Slots: shard.KeySlots, Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	return l
}

// succeed returns the layout that follows l in the family's record.
func succeed(t interface{ Fatal(...any) }, l shard.Layout, s shard.Spec, nodes []shard.Node) shard.Layout {
	keys, err := l.KeysAfter(s, shard.Arrangement{Shards: l.Keys.Shards, Slots: l.Keys.Slots, Nodes: nodes})
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

// together is what the shards of two layouts hold at most if each follows either of them.
func together(a, b shard.Layout) (share, burst int64) {
	for _, l := range []shard.Layout{a, b} {
		other := b
		if l.Epoch == b.Epoch {
			other = a
		}
		for _, s := range l.Live() {
			i := other.Index(s.Site())
			switch {
			case i < 0 || other.Shards[i].Share == 0:
				share, burst = share+s.Share, burst+s.Burst
			case l.Epoch == a.Epoch:
				share, burst = share+max(s.Share, other.Shards[i].Share), burst+max(s.Burst, other.Shards[i].Burst)
			}
		}
	}
	return share, burst
}

// A change of a family's limit is settled for a key only if its shards sum to no more than the
// greater limit in whatever order they learn of it. A change of permits alone always is.
func TestKeysOfAFamilyChangeOneByOneOrByAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 2, 3, 7, 8, 16, 64}).Draw(t, "shards")
		draw := func(label string) shard.Spec {
			s := spec(rapid.Int64Range(1, 4*int64(shards)).Draw(t, label))
			if rapid.IntRange(0, 2).Draw(t, label+" bucket") == 0 {
				s.Algorithm = "bucket"
				s.Burst = rapid.SampledFrom([]int64{0, 1, s.Permits, 3*s.Permits + 1}).Draw(t, label+" burst")
			}
			s.Window = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, label+" window")
			return s
		}
		nodes := someNodes(3)
		was := family(t, 5, draw("before"), shards, nodes)
		next := was
		s := draw("after")
		moved := rapid.IntRange(0, 3).Draw(t, "moved") == 0
		if moved {
			nodes = someNodes(4)
		}
		next = succeed(t, was, s, nodes)
		for k := range 5 {
			from, to := keyed(t, was, fmt.Sprint("key", k)), keyed(t, next, fmt.Sprint("key", k))
			if !from.Settled || from.Permits != was.Permits || to.Permits != next.Permits || to.Burst != next.Burst {
				t.Fatalf("%+v\nthen %+v", from, to)
			}
			share, burst := together(from, to)
			if to.Settled && (share > max(from.Permits, to.Permits) || burst > max(from.Burst, to.Burst)) {
				t.Fatalf("settled at once, and the shards may hold %d, at once %d\nfrom %+v\nto   %+v", share, burst,
					from, to)
			}
			alike := was.Algorithm == next.Algorithm && was.Burst == 0 && next.Burst == 0
			if !to.Settled && alike && !moved && len(to.Live()) >= len(from.Live()) {
				t.Fatalf("from %+v\nto   %+v", from, to)
			}
			if to.Settled && from.Algorithm != to.Algorithm {
				t.Fatal("another algorithm has other shards, and does not know what was used")
			}
			if !to.Settled {
				for _, s := range from.Shards {
					if i := to.Index(s.Site()); i < 0 || to.Shards[i].Start != s.Share {
						t.Fatalf("what %+v holds is not known to %+v", s, to)
					}
				}
			}
		}
	})
}

// After a limit was lowered, a shard may still have in use what it had before. A change that moves
// capacity between shards does not count on what the lower limit left it.
func TestAMoveAfterALimitWasLoweredCountsOnNoShard(t *testing.T) {
	nodes := someNodes(3)
	was := family(t, 5, spec(236), 2, nodes)
	lower := succeed(t, was, spec(233), nodes)
	if k := keyed(t, lower, "key"); !k.Settled {
		t.Errorf("shard by shard a key may be lowered at once: %+v", k)
	}
	raised := succeed(t, lower, spec(300), nodes)
	if k := keyed(t, raised, "key"); !k.Settled {
		t.Errorf("and raised again: %+v", k)
	}
	other := spec(235)
	other.Algorithm = "another"
	again := succeed(t, succeed(t, raised, spec(100), nodes), spec(290), nodes) // less than there was
	for _, before := range []shard.Layout{lower, again} {
		k := keyed(t, succeed(t, before, other, nodes), "key")
		for _, s := range k.Shards {
			if k.Settled || s.Share == 0 && s.Start != shard.Unknown {
				t.Errorf("%+v is taken to hold that under %+v", s, k)
			}
		}
		for i, floor := range k.Opening(false) {
			if floor > 0 {
				t.Errorf("%+v may be raised to %d before any shard was seen", k.Shards[i], floor)
			}
		}
	}
}

// Whatever the order of changes, a key that is not settled lists every place where it may hold
// something.
func TestKeysOfAFamilyForgetNoPlaceWhileTheyMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(20)
		l := family(t, 1, s, rapid.SampledFrom([]int{1, 3}).Draw(t, "shards"), someNodes(2))
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
	l := family(t, 1, spec(10), 1, someNodes(1))
	for i := range 17 {
		keys, err := l.KeysAfter(l.Spec(), shard.Arrangement{Shards: 1, Nodes: someNodes(i + 2)})
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
	first := family(t, 1, spec(10), 1, someNodes(1))
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
	if _, err := merged.KeysAfter(spec(10), shard.Arrangement{Shards: 1, Nodes: someNodes(2)}); err != nil {
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
const goldenKeys = `{"v":1,"epoch":6,"settled":true,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":0,"shards":[{"slot":1,"node":"record","share":30}],"keys":{"shards":2,"slots":256,"nodes":[{"name":"10.0.0.0:6379","weight":1},{"name":"10.0.0.1:6379","weight":1}],"before":[{"shards":2,"slots":256,"nodes":[{"name":"10.0.0.0:6379","weight":1}],"epoch":5,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog"}],"longest_ns":2000000000,"since_us":17,"since_at":"n"}}`

func TestGoldenKeys(t *testing.T) {
	l := succeed(t, family(t, 5, spec(30), 2, someNodes(1)), spec(30), someNodes(2))
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
	l := family(t, 5, spec(10), 1, someNodes(1))
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
	for _, s := range k.Shards {
		if s.Start != shard.Unknown {
			t.Errorf("%+v of %+v is known", s, k)
		}
	}
}

// For how long a grant may count is remembered, however the family's limit changes.
func TestTheLongestLimitOfAFamilyIsRemembered(t *testing.T) {
	long := spec(10)
	long.Window = time.Hour
	l := family(t, 5, long, 1, someNodes(1))
	l = succeed(t, l, spec(10), someNodes(2))
	merged := must(t)(l.Merge(9, family(t, 6, spec(10), 1, someNodes(2))))
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
