package shard_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// noted is l as found in force at this time of a node.
func noted(l shard.Layout, now int64) shard.Layout {
	keys := *l.Keys
	keys.Since, keys.SinceAt, keys.Upto = now, "a", l.Epoch
	l.Keys = &keys
	return l
}

// What was before is forgotten once its time is over, whatever has changed since; what came later
// is not.
func TestWhatWasBeforeIsForgottenThoughMoreHasChanged(t *testing.T) {
	l := withOwn(t, family(t, 1, spec(10), 1, someNodes(2)), "old", terms(5))
	l = withOwn(t, noted(withOwn(t, l, "old", shard.Terms{}), 1000), "new", terms(7))
	if l.Keys.Since != 1000 || l.Keys.SinceAt != "a" {
		t.Fatalf("since %d at %q: another change has begun the time anew", l.Keys.Since, l.Keys.SinceAt)
	}
	next := l.Keys.Forget()
	if len(next.Own) != 1 || next.Own[0].ID != "new" || len(next.Own[0].Before) != 1 || next.Since != 0 {
		t.Errorf("%+v", next)
	}
	if next = next.Forget(); len(next.Own) != 1 || len(next.Own[0].Before) != 0 || next.Changing() {
		t.Errorf("%+v", next)
	}
	moved := must(t)(l.Change(l.Epoch+1, l.Spec(), l.Live()))
	keys, err := l.KeysAfter(l.Spec(), shard.Arrangement{Shards: 1, Nodes: someNodes(3)})
	if moved.Keys = keys; err != nil || keys.Since != 1000 {
		t.Fatalf("%+v (%v)", keys, err)
	}
	if next = moved.Keys.Forget(); len(next.Before) != 1 {
		t.Errorf("the arrangement that was left later is forgotten: %+v", next)
	}
}

// Keys that have the family's limit again leave room for others.
func TestKeysThatWereUnsetLeaveRoom(t *testing.T) {
	l := family(t, 1, spec(10), 1, someNodes(1))
	for i := range 3 * shard.MaxOwn {
		id := fmt.Sprint("key ", i)
		l = withOwn(t, withOwn(t, l, id, terms(5)), id, shard.Terms{})
		if i%100 == 99 {
			l.Keys = noted(l, 1000).Keys.Forget()
		}
	}
}

// Where keys were once more is remembered for as long as from then on.
func TestAnArrangementThatCameBackIsRememberedFromThenOn(t *testing.T) {
	at := func(l shard.Layout, node int) shard.Layout {
		return succeed(t, l, spec(10), someNodes(4)[node:node+1])
	}
	l := at(family(t, 1, spec(10), 1, someNodes(1)), 1)
	l = noted(l, 1000) // node 1 is in force
	l = at(at(at(l, 0), 2), 3)
	next := l
	next.Keys = l.Keys.Forget()
	next.Epoch++
	k := keyed(t, next, "k")
	for _, n := range someNodes(2) {
		if !slices.ContainsFunc(k.Shards, func(s shard.Shard) bool { return s.Node == n.Name }) {
			t.Errorf("what is on %s since the note is forgotten by %+v", n.Name, k)
		}
	}
}

// Once some of what was before is forgotten, the rest does not tell what shards have: capacity was
// on its way between them.
func TestWhatIsLeftOfWhatWasBeforeIsUnknown(t *testing.T) {
	l := succeed(t, family(t, 1, spec(10), 1, someNodes(1)), spec(10), someNodes(2)[1:])
	l = succeed(t, noted(l, 1000), spec(30), someNodes(3)[2:])
	o := withOwn(t, family(t, 1, spec(10), 2, someNodes(1)), "k", terms(1))
	o = withOwn(t, noted(o, 1000), "k", terms(20))
	o = withOwn(t, o, "k", terms(1))
	for name, l := range map[string]shard.Layout{"family": l, "own": o} {
		l.Keys = l.Keys.Forget()
		l.Epoch++
		k := keyed(t, l, "k")
		if len(k.Shards) < 2 || k.Settled {
			t.Errorf("%s: nothing is left: %+v", name, k)
		}
		for _, s := range k.Shards {
			if s.Start != shard.Unknown {
				t.Errorf("%s: %+v of %+v is known", name, s, k)
			}
		}
	}
	if l.Keys = l.Keys.Forget().Forget(); l.Keys.Cut || !keyed(t, l, "k").Settled {
		t.Errorf("after a while: %+v", l.Keys)
	}
}

// Layouts that become one are a record like others, however many own limits they remember, and keys
// can be changed after it.
func TestLayoutsWithManyOwnLimitsBecomeOne(t *testing.T) {
	l := family(t, 1, spec(10), 3, someNodes(3))
	older := l
	for i := range shard.MaxOwn {
		older, l = l, withOwn(t, l, fmt.Sprintf("key %04d", i), terms(int64(1+i%20)))
	}
	moved := succeed(t, older, spec(9), someNodes(2))
	for name, others := range map[string][]shard.Layout{
		"alone": nil, "a change older": {older}, "moved": {moved}, "many": {moved, older, l},
	} {
		merged := must(t)(l.Merge(1<<21, others...)).Settle()
		merged = must(t)(merged.Merge(1<<22, others...)).Settle() // the same again
		if n := len(merged.Keys.Before); n > 4 {
			t.Errorf("%s: %d arrangements before", name, n)
		}
		data, err := json.Marshal(merged)
		var back shard.Layout
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || len(data) > 1<<19 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		for _, id := range []string{"key 0000", "key 0019", "key 0999", "none"} {
			k := keyed(t, back, id)
			if k.Permits != keyed(t, l, id).Permits {
				t.Errorf("%s: %s has %d permits", name, id, k.Permits)
			}
			for _, was := range append(others, l) {
				for _, s := range keyed(t, was, id).Shards {
					if k.Index(s.Site()) < 0 {
						t.Errorf("%s: %+v of %s is forgotten by %+v", name, s, id, k)
					}
				}
			}
		}
		changed := withOwn(t, merged, "key 0000", terms(77))
		if k := keyed(t, changed, "key 0000"); k.Permits != 77 {
			t.Errorf("%s: %+v", name, k)
		}
		if _, err := changed.KeysAfter(spec(30), shard.Arrangement{Shards: 3, Nodes: someNodes(1)}); err != nil {
			t.Errorf("%s: arranged anew: %v", name, err)
		}
	}
}
