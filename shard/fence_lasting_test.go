package shard

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A layout counts what any earlier one granted for as long as that may matter, however often the
// limit is changed or merged with others, and forgets it some time after.
func TestALayoutCountsAllThatMayMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type past struct {
			lasts time.Duration
			left  int64 // the epoch from which on it granted nothing
		}
		var all []past
		spec := rapid.Custom(func(t *rapid.T) Spec {
			return Spec{Permits: 10, Algorithm: "a",
				Window: time.Duration(rapid.Int64Range(int64(MinWindow), int64(time.Hour)).Draw(t, "window"))}
		})
		on := func(node string) []Shard { return []Shard{{Node: node, Share: 10}} }
		must := func(l Layout, err error) Layout {
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		epoch := int64(1)
		l := must(New(nil, epoch, spec.Draw(t, "first"), on("n")))
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			epoch += rapid.Int64Range(1, time.Hour.Microseconds()).Draw(t, "pause")
			all = append(all, past{l.Spec().Lasts(), epoch})
			if rapid.Bool().Draw(t, "merges") {
				rival := must(New(nil, epoch-1, spec.Draw(t, "rival"), on("m")))
				all = append(all, past{rival.Spec().Lasts(), epoch})
				l = must(l.Merge(epoch, rival))
			} else {
				l = must(l.Change(epoch, spec.Draw(t, "next"), on("n")))
			}
			for _, p := range all {
				if epoch <= p.left+p.lasts.Microseconds() && l.GrantsLast() < p.lasts {
					t.Fatalf("at %d %v are counted; %v were granted until %d", epoch, l.GrantsLast(), p.lasts, p.left)
				}
			}
		}
		again := must(l.Change(epoch+(3*time.Hour).Microseconds(), l.Spec(), on("n")))
		if again.Lasts != 0 || again.Until != 0 {
			t.Fatalf("long after: %+v", again)
		}
	})
}
