package shard_test

import (
	"fmt"
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
