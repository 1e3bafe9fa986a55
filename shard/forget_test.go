package shard_test

import (
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
	l := noted(succeed(t, family(t, 1, spec(10), someNodes(1)), spec(10), someNodes(2)), 1000)
	if l = succeed(t, l, spec(10), someNodes(3)); l.Keys.Since != 1000 || l.Keys.SinceAt != "a" {
		t.Fatalf("since %d at %q: another change has begun the time anew", l.Keys.Since, l.Keys.SinceAt)
	}
	next := l.Keys.Forget()
	if len(next.Before) != 1 || len(next.Before[0].Nodes) != 2 || next.Since != 0 {
		t.Errorf("%+v", next)
	}
	if next = next.Forget(); next.Moving() {
		t.Errorf("%+v", next)
	}
}

// Where keys were once more is remembered for as long as from then on.
func TestAnArrangementThatCameBackIsRememberedFromThenOn(t *testing.T) {
	at := func(l shard.Layout, node int) shard.Layout {
		return succeed(t, l, spec(10), someNodes(4)[node:node+1])
	}
	l := at(family(t, 1, spec(10), someNodes(1)), 1)
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
	l := succeed(t, family(t, 1, spec(10), someNodes(1)), spec(10), someNodes(2)[1:])
	l = succeed(t, noted(l, 1000), spec(30), someNodes(3)[2:])
	l.Keys = l.Keys.Forget()
	l.Epoch++
	k := keyed(t, l, "k")
	if len(k.Shards) < 2 || k.Settled {
		t.Errorf("nothing is left: %+v", k)
	}
	for _, s := range k.Shards {
		if s.Start != shard.Unknown {
			t.Errorf("%+v of %+v is known", s, k)
		}
	}
	if l.Keys = l.Keys.Forget().Forget(); l.Keys.Cut || !keyed(t, l, "k").Settled {
		t.Errorf("after a while: %+v", l.Keys)
	}
}
