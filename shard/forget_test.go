package shard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// moved is a family that was on one node and then on another, which it has left for 99 minutes; the
// first for 99 hours more.
func moved(t *testing.T) shard.Layout {
	l := succeed(t, family(t, 1, spec(10), someNodes(1)), spec(10), someNodes(2)[1:])
	return must(t)(l.Rearrange(l.Epoch+1, someNodes(3)[2:], 100*time.Hour)).Settle(100 * time.Minute)
}

// What was before is forgotten once all of it was left for long enough, whatever has changed since.
func TestWhatWasLeftLongAgoIsForgotten(t *testing.T) {
	l := moved(t)
	l = must(t)(l.Rearrange(l.Epoch+1, someNodes(4)[3:], 0))
	for _, c := range []struct {
		held, after time.Duration
		forgettable bool
	}{
		{0, 99 * time.Minute, false},
		{time.Hour, 100 * time.Minute, false},
		{100 * time.Minute, 99*time.Minute + 1, false},
		{100 * time.Minute, 99 * time.Minute, true},
		{-time.Hour, time.Minute, false},
	} {
		if got := l.Forgettable(c.held, c.after); got != c.forgettable {
			t.Errorf("%+v: %v", c, got)
		}
	}
	anew := must(t)(l.Outlast(l.Epoch+1, l))
	if l = must(t)(anew.Forget(anew.Epoch+1, time.Hour)); !keyed(t, l, "k").Settled {
		t.Errorf("%+v", l.Keys)
	}
}

// Where keys were once more is remembered for as long as from then on.
func TestAnArrangementThatCameBackIsRememberedFromThenOn(t *testing.T) {
	at := func(l shard.Layout, node int) shard.Layout {
		return must(t)(l.Rearrange(l.Epoch+1, someNodes(4)[node:node+1], time.Hour))
	}
	l := at(at(at(at(family(t, 1, spec(10), someNodes(1)), 1), 0), 2), 3)
	for i, left := range []time.Duration{2 * time.Hour, time.Hour, 0} { // the second, the first, the third
		if p := l.Keys.Before[i]; p.LeftFor/99*100 != left || p.Nodes[0].Name != someNodes(3)[[]int{1, 0, 2}[i]].Name {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

// A family whose record shards have overtaken, or that held another layout, knows of no key what it
// holds while keys move.
func TestAFamilyAnewKnowsOfNoShare(t *testing.T) {
	l := must(t)(moved(t).Outlast(10, family(t, 2, spec(10), someNodes(4)[3:])))
	shards := slices.Concat(keyed(t, l, "k").Shards, keyed(t, must(t)(moved(t).Outlast(10, moved(t))), "k").Shards)
	for _, s := range shards {
		if s.Start != shard.Unknown {
			t.Errorf("%+v is known", s)
		}
	}
	if l.Keys.Before[0].LeftFor != 0 {
		t.Error("what was before may be in use again")
	}
}

// What earlier layouts granted counts until one layout was held for as long, however often it is
// written anew in between.
func TestWhatEarlierLayoutsGrantedCounts(t *testing.T) {
	long := spec(10)
	long.Window = time.Hour
	l := must(t)(must(t)(shard.New(nil, 1, long, on("a", 10))).Change(2, spec(10), on("b", 10), time.Minute))
	const lasts = 2 * time.Hour
	for i := range int64(9) {
		if l.Lasts != lasts || l.GrantsLast() != lasts {
			t.Fatalf("%d: %v", i, l.Lasts)
		}
		switch i % 3 {
		case 0:
			l = l.Settle(lasts)
		case 1:
			l = must(t)(l.Change(l.Epoch+1, spec(10+i), on("c", 10+int(i)), lasts))
		case 2:
			l = must(t)(l.Outlast(l.Epoch+1, l))
		}
	}
	enough := (lasts + lasts/100 + 16*time.Second) * 100 / 99
	if next := must(t)(l.Change(l.Epoch+1, spec(20), on("c", 20), enough+100)); next.Lasts != 0 {
		t.Errorf("a change after %v: %v", enough, next.Lasts)
	}
	if l = l.Settle(enough - time.Second); l.Lasts == 0 {
		t.Error("it is forgotten too soon")
	}
	if l = l.Settle(enough + 100); l.Lasts != 0 || l.GrantsLast() != 2*time.Second {
		t.Errorf("%v", l.Lasts)
	}
}
