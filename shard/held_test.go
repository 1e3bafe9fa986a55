package shard_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// A layout that is written anew in between, settled or not, counts no longer for it.
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
			l = must(t)(l.Anew(l.Epoch+1, 300*time.Second))
		}
	}
	if l = l.Settle(want * 100 / 98); l.Lasts != 0 || l.Left != 0 || l.GrantsLast() != 2*time.Second {
		t.Errorf("%v for %v", l.Lasts, l.Left)
	}
}
