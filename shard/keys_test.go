package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

// family returns the settled layout of a family.
func family(t interface{ Fatal(...any) }, epoch int64, s shard.Spec, nodes []shard.Node) shard.Layout {
	l, err := shard.NewFamily(nil, epoch, s, on("record", int(s.Permits)), nodes)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// succeed returns the layout of a family with another spec, and then over other nodes.
func succeed(t interface{ Fatal(...any) }, l shard.Layout, s shard.Spec, nodes []shard.Node) shard.Layout {
	var err error
	if s != l.Spec {
		if l, err = l.Change(l.Epoch+1, s, on("record", int(s.Permits)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if !l.Keys.Over(nodes) {
		if l, err = l.Rearrange(l.Epoch+1, nodes, 0); err != nil {
			t.Fatal(err)
		}
	}
	return l.Settle(0)
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
		s := l.Spec
		change(&s)
		l = succeed(t, l, s, someNodes(3))
		if k := keyed(t, l, "key"); !k.Settled || k.Permits != s.Permits || k.Window != s.Window || k.Mode != s.Mode {
			t.Errorf("%+v", k)
		}
	}
	s := l.Spec
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
		held := map[shard.Site]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			held[keyed(t, l, "k").Live()[0].Site()] = true
			if rapid.Bool().Draw(t, "permits") {
				s.Permits = rapid.Int64Range(1, 30).Draw(t, "permits to")
			}
			s.Algorithm = rapid.SampledFrom([]string{"slidinglog", "slidinglog", "counter"}).Draw(t, "algorithm")
			l = succeed(t, l, s, someNodes(rapid.IntRange(1, 4).Draw(t, "nodes")))
			for at := range held {
				if k := keyed(t, l, "k"); k.Index(at) < 0 {
					t.Fatalf("%v is forgotten by %+v", at, k)
				}
			}
		}
	})
}

func TestOnlySoManyArrangementsAreLeftAtOnce(t *testing.T) {
	l := family(t, 1, spec(10), someNodes(1))
	for i := range 16 {
		l = must(t)(l.Rearrange(l.Epoch+1, someNodes(i+2), 0))
	}
	another := l.Spec
	another.Algorithm = "another"
	heavier := someNodes(17)
	heavier[3].Weight = 2
	for name, try := range map[string]func() (shard.Layout, error){
		"another node":      func() (shard.Layout, error) { return l.Rearrange(99, someNodes(18), 0) },
		"another weight":    func() (shard.Layout, error) { return l.Rearrange(99, heavier, 0) },
		"another algorithm": func() (shard.Layout, error) { return l.Change(99, another, on("record", 10), 0) },
	} {
		if _, err := try(); !errors.Is(err, shard.ErrTooManyMoves) {
			t.Errorf("%s: %v", name, err)
		}
	}
	faster := l.Spec
	faster.Window /= 2
	if _, err := l.Change(99, faster, on("record", 10), 0); err != nil {
		t.Errorf("another window: %v", err)
	}
	for n := 16; n > 0; n-- { // a node that is lost is always left
		l = must(t)(l.Rearrange(l.Epoch+1, someNodes(n), 0))
	}
}

// A node that comes and goes never stops a change. Its keys are where a node is, at every time, and
// on it again some time after it has come to stay.
func TestANodeThatFlapsStopsNoChange(t *testing.T) {
	const after = time.Hour
	nodes := func(lives ...int) (nodes []shard.Node) {
		for i, life := range lives {
			if life > 0 {
				nodes = append(nodes, shard.Node{Name: string(rune('a' + i)), Weight: 1, Incarnation: fmt.Sprint(life)})
			}
		}
		return nodes
	}
	record := on("record", 10)
	record[0].Incarnation = "1"
	l := must(t)(shard.NewFamily(&shard.Fence{}, 1, spec(10), record, nodes(1, 1, 1, 1)))
	pass := func(held time.Duration, open []shard.Node) {
		t.Helper()
		switch now, _ := l.Keys.Fit(open); {
		case !l.Keys.Over(now):
			l = must(t)(l.Rearrange(l.Epoch+1, now, held))
		case l.Forgettable(held, after):
			l = must(t)(l.Forget(l.Epoch+1, held, after))
		}
		for i := range 20 {
			home := keyed(t, l, fmt.Sprint("key ", i)).Shards[0]
			is := shard.Node{Name: home.Node, Weight: 1, Incarnation: home.Incarnation}
			if !slices.Contains(open, is) {
				t.Fatalf("key %d is on %s in its incarnation %s; open are %v", i, home.Node, home.Incarnation, open)
			}
		}
	}
	for i := range 1000 {
		pass(5*time.Second, nodes(1, 1, 1, 0))
		pass(5*time.Second, nodes(1, 1, 1, i+2))
	}
	for i := range 8 { // all of them, one after another
		lives := []int{2 + i, 2 + i, 2 + i, 2000 + i}
		for k := range lives {
			was := lives[k]
			lives[k] = 0
			pass(time.Second, nodes(lives...))
			lives[k] = was + 1
			pass(time.Second, nodes(lives...))
		}
	}
	last := nodes(9, 9, 9, 9)
	for range 4 {
		pass(after*101/99, last)
	}
	if !l.Keys.Over(last) || l.Keys.Moving() {
		t.Errorf("in the end: %+v", l.Keys)
	}
}

// goldenKeys is the record of a family whose keys move to another node.
const goldenKeys = `{"v":1,"epoch":6,"settled":true,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":0,"shards":[{"slot":1,"node":"record","algorithm":"slidinglog","share":30}],"keys":{"nodes":[{"name":"10.0.0.0:6379","weight":1},{"name":"10.0.0.1:6379","weight":1}],"before":[{"nodes":[{"name":"10.0.0.0:6379","weight":1}],"algorithm":"slidinglog","left_for_ns":17}],"longest_ns":2000000000}}`

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
	later := time.Hour
	for name, is := range map[string]time.Duration{
		"changed": l.Keys.Longest, "forgotten": must(t)(l.Forget(9, later, time.Minute)).Keys.Longest,
		"anew": must(t)(l.Outlast(9, l)).Keys.Longest, "settled": l.Settle(later).Keys.Longest,
		"counted for takeovers": l.GrantsLast(),
	} {
		if is != 2*time.Hour {
			t.Errorf("%s: %s", name, is)
		}
	}
}

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

// Where a key is needs no layout of its own. It is on the node that a limit of its name would be
// on.
func TestAKeyIsWhereItsLayoutHasIt(t *testing.T) {
	for n := range 6 {
		nodes := someNodes(n + 1)
		for i := range nodes {
			nodes[i].Weight = float64(1 + i%3)
		}
		l := family(t, 1, spec(10), nodes)
		for i := range 300 {
			id := fmt.Sprint("users:", i)
			at, ok := l.Keys.OnlyOf("users:", id[len("users:"):])
			if s := keyed(t, l, id).Shards[0]; !ok || at.Slot != s.Slot || at.Node != s.Node ||
				at.Node != nodes[shard.Place(id, 1, nodes)[0]].Name {
				t.Fatalf("%s of %d nodes: %v (%v), its layout has it at %+v", id, len(nodes), at, ok, s)
			}
		}
	}
}
