package shard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

func terms(permits int64) shard.Terms { return shard.Terms{Permits: permits, Window: time.Second} }

// withOwn returns the layout that follows l when a key gets a limit of its own.
func withOwn(t interface{ Fatal(...any) }, l shard.Layout, id string, own shard.Terms) shard.Layout {
	keys, err := l.KeysWith(id, own)
	if err != nil {
		t.Fatal(err)
	}
	if keys == nil {
		return l
	}
	next, err := l.Change(l.Epoch+1, l.Spec(), l.Live())
	if err != nil {
		t.Fatal(err)
	}
	next.Keys = keys
	return next.Settle()
}

// forgotten is the layout once nothing is held any more under what was before.
func forgotten(t interface{ Fatal(...any) }, l shard.Layout) shard.Layout {
	next, err := l.Renumber(l.Epoch + 1)
	if err != nil {
		t.Fatal(err)
	}
	next.Keys = l.Keys.Forget()
	return next
}

func TestAKeyHasItsOwnLimitUntilItIsTakenAway(t *testing.T) {
	l := withOwn(t, family(t, 5, spec(10), 1, someNodes(3)), "paid", terms(40))
	if k := keyed(t, l, "paid"); k.Permits != 40 || k.Live()[0].Share != 40 {
		t.Errorf("%+v", k)
	}
	if k := keyed(t, l, "free"); k.Permits != 10 || !k.Settled {
		t.Errorf("another key has %+v", k)
	}
	l = succeed(t, l, spec(20), someNodes(2))
	if k := keyed(t, l, "paid"); k.Permits != 40 || k.Settled {
		t.Errorf("after a change of its family: %+v", k)
	}
	if l = forgotten(t, l); keyed(t, l, "paid").Permits != 40 || !keyed(t, l, "paid").Settled {
		t.Errorf("after a while: %+v", keyed(t, l, "paid"))
	}
	l = withOwn(t, l, "paid", shard.Terms{})
	if k := keyed(t, l, "paid"); k.Permits != 20 || !l.Keys.Changing() || l.Keys.Moving() {
		t.Errorf("taken away: %+v of %+v", k, l.Keys)
	}
	if l = forgotten(t, l); len(l.Keys.Own) != 0 || l.Keys.Changing() {
		t.Errorf("%+v is remembered for ever", l.Keys)
	}
}

// familyWalk draws changes of a family, of which some are of the key "k" alone.
type familyWalk struct {
	l, twin shard.Layout // the twin never hears of own limits
	held    map[string]int64
}

func (w *familyWalk) step(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0, 1:
		w.l = withOwn(t, w.l, "k", terms(rapid.Int64Range(1, 60).Draw(t, "own")))
	case 2:
		w.l = withOwn(t, w.l, "k", shard.Terms{})
	case 3:
		if rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
			w.l, w.twin = forgotten(t, w.l), forgotten(t, w.twin)
			clear(w.held)
		}
	default:
		s := w.l.Spec()
		s.Permits = rapid.Int64Range(1, 40).Draw(t, "permits")
		s.Algorithm = rapid.SampledFrom([]string{"slidinglog", "slidinglog", "counter"}).Draw(t, "algorithm")
		nodes := w.l.Keys.Nodes
		if rapid.Bool().Draw(t, "move") {
			nodes = someNodes(rapid.IntRange(1, 4).Draw(t, "nodes"))
		}
		w.l = succeed(t, w.l, s, nodes)
		w.twin.Epoch = max(w.twin.Epoch, w.l.Epoch-1)
		w.twin = succeed(t, w.twin, s, nodes)
	}
}

// A key with a limit of its own forgets no place where it may hold something. Other keys are as if
// nobody had a limit of his own.
func TestOwnLimitsForgetNothingAndConcernNobodyElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := family(t, 1, spec(20), rapid.SampledFrom([]int{1, 3}).Draw(t, "shards"), someNodes(2))
		w := &familyWalk{l: first, twin: first, held: map[string]int64{}}
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			before := keyed(t, w.l, "k")
			w.step(t)
			for _, s := range before.Live() {
				if at := fmt.Sprint(s.Slot, s.Node, s.Algorithm); w.l.Epoch > before.Epoch && w.l.Keys.Changing() {
					w.held[at] = max(w.held[at], s.Share)
				}
			}
			k := keyed(t, w.l, "k")
			w.check(t, before, k)
			other, twin := keyed(t, w.l, "other"), keyed(t, w.twin, "other")
			if !reflect.DeepEqual(inOrder(other), inOrder(twin)) || other.Settled != twin.Settled {
				t.Fatalf("another key has %+v, not %+v", other, twin)
			}
			var back shard.Layout
			if data, err := json.Marshal(w.l); err != nil || json.Unmarshal(data, &back) != nil ||
				!reflect.DeepEqual(keyed(t, back, "k"), k) {
				t.Fatalf("stored as %s: %v", data, err)
			}
		}
	})
}

func inOrder(l shard.Layout) []string {
	var shards []string
	for _, s := range l.Shards {
		shards = append(shards, fmt.Sprintf("%+v", s))
	}
	slices.Sort(shards)
	return shards
}

func (w *familyWalk) check(t *rapid.T, before, k shard.Layout) {
	if k.Settled && before.Settled && k.Epoch != before.Epoch && !w.l.Keys.Moving() {
		if share, _ := together(before, k); share > max(before.Permits, k.Permits) {
			t.Fatalf("%d at once while %+v becomes %+v", share, before, k)
		}
	}
	if k.Settled {
		return
	}
	for at := range w.held {
		if !slices.ContainsFunc(k.Shards,
			func(s shard.Shard) bool { return fmt.Sprint(s.Slot, s.Node, s.Algorithm) == at }) {
			t.Fatalf("%s is forgotten by %+v", at, k)
		}
	}
	for _, s := range k.Shards {
		if most := w.held[fmt.Sprint(s.Slot, s.Node, s.Algorithm)]; s.Start != shard.Unknown && s.Start < most {
			t.Fatalf("%+v may hold %d under %+v", s, most, k)
		}
	}
}

// A key forgets no shard that it had where its family was twice. The others list no more than they
// would if it had no limit of its own.
func TestAKeyThatComesBackIsNotTakenForWhatItWas(t *testing.T) {
	at := func(n int) []shard.Node { return someNodes(4)[n : n+1] }
	l := succeed(t, family(t, 1, spec(1), 3, at(0)), spec(1), at(1))
	l = withOwn(t, l, "k", terms(40))
	for _, n := range []int{0, 2, 3} {
		if n == 2 {
			l = withOwn(t, l, "k", shard.Terms{})
		}
		l = succeed(t, l, spec(1), at(n))
	}
	had := func(s shard.Shard) bool { return s.Node == at(0)[0].Name }
	if k := keyed(t, l, "k"); len(slices.DeleteFunc(k.Shards, func(s shard.Shard) bool { return !had(s) })) != 3 {
		t.Errorf("it had 3 shards on %s: %+v", at(0)[0].Name, keyed(t, l, "k"))
	}

	was := family(t, 1, spec(20), 3, someNodes(2))
	was = succeed(t, succeed(t, was, spec(1), someNodes(2)), spec(3), someNodes(2))
	with := succeed(t, withOwn(t, was, "k", terms(1)), spec(3), someNodes(2))
	without := succeed(t, was, spec(3), someNodes(2))
	if a, b := keyed(t, with, "other"), keyed(t, without, "other"); a.Settled != b.Settled ||
		!reflect.DeepEqual(inOrder(a), inOrder(b)) {
		t.Errorf("another key has %+v, not %+v", a, b)
	}
}

// Layouts that become one may have given a key different limits.
func TestMergedLayoutsForgetNoOwnLimit(t *testing.T) {
	first := family(t, 1, spec(10), 1, someNodes(3))
	for name, c := range map[string]struct{ a, b shard.Layout }{
		"one of them": {withOwn(t, first, "k", terms(40)), succeed(t, first, spec(9), someNodes(2))},
		"both":        {withOwn(t, first, "k", terms(40)), withOwn(t, first, "k", terms(7))},
		"taken away": {withOwn(t, withOwn(t, first, "k", terms(40)), "k", shard.Terms{}),
			withOwn(t, first, "k", terms(7))},
		"the other moved": {succeed(t, first, spec(10), someNodes(1)), withOwn(t, first, "k", terms(40))},
		"before a move": {succeed(t, withOwn(t, first, "k", terms(40)), spec(10), someNodes(1)),
			succeed(t, first, spec(10), someNodes(5))},
	} {
		merged := must(t)(c.a.Merge(1000, c.b)).Settle()
		key := keyed(t, merged, "k")
		if want := keyed(t, c.a, "k").Permits; key.Permits != want {
			t.Errorf("%s: %d permits, not %d", name, key.Permits, want)
		}
		for _, l := range []shard.Layout{first, c.a, c.b} {
			for _, s := range keyed(t, l, "k").Live() {
				if key.Index(s.Site()) < 0 {
					t.Errorf("%s: %+v is forgotten by %+v", name, s, key)
				}
			}
		}
		if !merged.Keys.Changing() {
			t.Errorf("%s: nothing of what was is remembered", name)
		}
		var back shard.Layout
		if data, err := json.Marshal(merged); err != nil || json.Unmarshal(data, &back) != nil {
			t.Errorf("%s: stored as %s: %v", name, data, err)
		}
	}
}

func TestOwnLimitsHaveBounds(t *testing.T) {
	l := family(t, 1, spec(10), 1, someNodes(1))
	for i := range shard.MaxOwn {
		l = withOwn(t, l, fmt.Sprintf("key %04d", i), terms(5))
	}
	if _, err := l.KeysWith("one more", terms(5)); !errors.Is(err, shard.ErrTooManyOwn) {
		t.Errorf("a key too many: %v", err)
	}
	if data, err := json.Marshal(l); err != nil || len(data) > 1<<19 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for i := range 16 {
		l = withOwn(t, l, "key 0000", terms(int64(10+i)))
		if i == 14 {
			break
		}
	}
	if _, err := l.KeysWith("key 0000", terms(100)); !errors.Is(err, shard.ErrTooManyMoves) {
		t.Errorf("changed too often: %v", err)
	}
	var impossible *shard.OwnError
	if _, err := l.KeysWith("key 0001", shard.Terms{Permits: 1}); !errors.As(err, &impossible) {
		t.Errorf("without a window: %v", err)
	}
	if keys, err := l.KeysWith("key 0001", terms(5)); keys != nil || err != nil {
		t.Errorf("the same again: %v, %v", keys, err)
	}
}

// goldenOwn is the record of a family of which one key has a limit of its own, and one had it.
const goldenOwn = `{"v":1,"epoch":4,"settled":true,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":0,"shards":[{"slot":1,"node":"record","share":30}],"keys":{"shards":2,"slots":256,"nodes":[{"name":"10.0.0.0:6379","weight":1}],"own":[{"id":"YQ==","permits":40,"window_ns":1000000000,"before":[{"epoch":1,"permits":30,"window_ns":1000000000,"follows":true}]},{"id":"Yg==","before":[{"epoch":2,"permits":30,"window_ns":1000000000,"follows":true},{"epoch":3,"permits":7,"window_ns":1000000000}]}]}}`

// A key has its family's mode, or that of its own limit, and neither moves anything.
func TestTheModeOfAKeyMovesNothing(t *testing.T) {
	family := must(t)(shard.New(nil, 1, spec(30), on("record", 30)))
	keys, err := family.KeysAfter(family.Spec(), shard.Arrangement{Shards: 2, Nodes: []shard.Node{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	family.Keys = keys
	closed := family.Spec()
	closed.Mode = "closed"
	next := must(t)(family.Change(2, closed, family.Live()))
	if next.Keys, err = family.KeysAfter(closed, keys.Arrangement); err != nil {
		t.Fatal(err)
	}
	own := shard.Terms{Permits: 30, Window: time.Second, Mode: "off"}
	if next.Keys, err = next.KeysWith("own", own); err != nil {
		t.Fatal(err)
	}
	last := must(t)(next.Change(3, closed, family.Live()))
	last.Keys = next.Keys
	data, err := json.Marshal(last)
	if err != nil {
		t.Fatal(err)
	}
	var back shard.Layout
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	for id, mode := range map[string]string{"own": "off", "other": "closed"} {
		for _, family := range []shard.Layout{last, back} {
			key, err := family.ForKey(id)
			if err != nil || key.Mode != mode || !key.Settled || len(key.Live()) != 2 {
				t.Errorf("key %s: %+v, %v", id, key, err)
			}
		}
	}
}

func TestGoldenOwnLimits(t *testing.T) {
	l := withOwn(t, family(t, 1, spec(30), 2, someNodes(1)), "a", terms(40))
	l = withOwn(t, withOwn(t, l, "b", terms(7)), "b", shard.Terms{})
	data, err := json.Marshal(l)
	if err != nil || string(data) != goldenOwn {
		t.Errorf("stored as\n%s, %v", data, err)
	}
	for name, change := range map[string][2]string{
		"in no order":     {`"YQ=="`, `"Yw=="`},
		"no id":           {`"YQ=="`, `""`},
		"no permits":      {`"permits":40,`, ``},
		"too many":        {`"permits":40,`, `"permits":9999999999999999,`},
		"epochs too late": {`"epoch":3,"permits"`, `"epoch":4,"permits"`},
		"epochs reversed": {`"epoch":3,"permits"`, `"epoch":1,"permits"`},
		"nothing before":  {`"permits":7,`, ``},
		"a key of " +
			"nothing": {`,"before":[{"epoch":2,"permits":30,"window_ns":1000000000,"follows":true},{"epoch":3,"permits":7,"window_ns":1000000000}]`, ``},
	} {
		var back shard.Layout
		if err := json.Unmarshal([]byte(strings.Replace(goldenOwn, change[0], change[1], 1)), &back); !errors.Is(err,
			shard.ErrInvalidLayout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
