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

// What was before is forgotten once it was left for long enough, whatever has changed since; what
// was left later is not. A part is forgotten alone only if there is much of it.
func TestWhatWasLeftLongAgoIsForgotten(t *testing.T) {
	l := moved(t)
	l = must(t)(l.Rearrange(l.Epoch+1, someNodes(4)[3:], 0))
	for _, c := range []struct {
		held, after time.Duration
		forgettable bool
		left        int // with the one in force, of which nobody knows what keys have there
	}{
		{0, 99*time.Hour + 99*time.Minute + 1, false, 4},
		{0, 99*time.Minute + 1, false, 3},
		{0, 99 * time.Minute, false, 2},
		{time.Hour, 100 * time.Minute, false, 2},
		{100 * time.Minute, 99*time.Minute + 1, false, 2},
		{100 * time.Minute, 99 * time.Minute, true, 0},
		{-time.Hour, 99*time.Minute + 1, false, 3},
	} {
		if got := l.Forgettable(c.held, c.after); got != c.forgettable {
			t.Errorf("%+v: %v", c, got)
		}
		next, err := l.Forget(l.Epoch+1, c.held, c.after)
		if err != nil || len(next.Keys.Before) != c.left || !next.Settled {
			t.Errorf("%+v: %+v, %v", c, next.Keys, err)
		}
	}
	for i := range 6 {
		l = must(t)(l.Rearrange(l.Epoch+1, someNodes(5 + i)[4+i:], 0))
	}
	if !l.Forgettable(time.Hour, 99*time.Minute) {
		t.Error("a part of many is not forgotten")
	}
	for i := range 100 { // a change each day: none is left for long enough while another one comes
		if l = must(t)(l.Rearrange(l.Epoch+1, someNodes(20 + i)[19+i:], 24*time.Hour)); l.Forgettable(0, 96*time.Hour) {
			l = must(t)(l.Forget(l.Epoch+1, 0, 96*time.Hour))
		}
		if len(l.Keys.Before) > 12 {
			t.Fatalf("%d are remembered", len(l.Keys.Before))
		}
	}
}

// Where keys were once more is remembered for as long as from then on.
func TestAnArrangementThatCameBackIsRememberedFromThenOn(t *testing.T) {
	at := func(l shard.Layout, node int) shard.Layout {
		return must(t)(l.Rearrange(l.Epoch+1, someNodes(4)[node:node+1], time.Hour))
	}
	l := at(at(at(at(family(t, 1, spec(10), someNodes(1)), 1), 0), 2), 3)
	k := keyed(t, must(t)(l.Forget(l.Epoch+1, 0, 100*time.Minute)), "k")
	for i, n := range someNodes(4) {
		listed := slices.ContainsFunc(k.Shards, func(s shard.Shard) bool { return s.Node == n.Name })
		if listed != (i != 1) {
			t.Errorf("%s is listed by %+v: %v", n.Name, k, listed)
		}
	}
}

// Once some of what was before is forgotten, the rest does not tell what shards have: capacity was
// on its way between them.
func TestWhatIsLeftOfWhatWasBeforeIsUnknown(t *testing.T) {
	l := succeed(t, moved(t), spec(30), someNodes(4)[3:])
	l = must(t)(l.Forget(l.Epoch+1, 0, time.Hour))
	k := keyed(t, l, "k")
	if len(k.Shards) < 2 || k.Settled {
		t.Errorf("nothing is left: %+v", k)
	}
	for _, s := range k.Shards {
		if s.Start != shard.Unknown {
			t.Errorf("%+v of %+v is known", s, k)
		}
	}
	if l = must(t)(l.Forget(l.Epoch+1, 2*time.Hour, time.Hour)); !keyed(t, l, "k").Settled {
		t.Errorf("after a while: %+v", l.Keys)
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

// Grants of earlier layouts count no longer because a layout is written anew in between, settled or
// not. One that outlasts another record does not know for how long it was held.
func TestWhatIsLeftIsLeftOnce(t *testing.T) {
	long := spec(10)
	long.Window = time.Hour
	l := must(t)(must(t)(shard.New(nil, 1, long, on("a", 10))).Change(2, spec(10), on("b", 10), time.Minute))
	want := 2*time.Hour + 72*time.Second + 16*time.Second
	for i := range int64(20) {
		if l.Lasts != 2*time.Hour || l.Left != want || l.GrantsLast() != 2*time.Hour {
			t.Fatalf("%d: %v for %v, want %v", i, l.Lasts, l.Left, want)
		}
		switch want -= 297 * time.Second; i % 3 {
		case 0:
			l = l.Settle(300 * time.Second)
		case 1:
			l = must(t)(l.Change(l.Epoch+1, spec(10+i), on("c", 10+int(i)), 300*time.Second))
		case 2:
			l = must(t)(l.Change(l.Epoch+1, spec(9), on("d", 9), 300*time.Second))
		}
	}
	if next := must(t)(l.Outlast(l.Epoch+1, l)); next.Lasts != l.Lasts || next.Left != l.Left {
		t.Errorf("%v for %v", next.Lasts, next.Left)
	}
	if l = l.Settle(want * 100 / 98); l.Lasts != 0 || l.Left != 0 || l.GrantsLast() != 2*time.Second {
		t.Errorf("%v for %v", l.Lasts, l.Left)
	}
}
