package shard

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A fence counts what any earlier layout granted for as long as that may matter, however often the
// limit is changed or merged with others, and forgets it some time after.
func TestAFenceCountsAllThatMayMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type past struct {
			lasts time.Duration
			left  int64 // the epoch from which on it granted nothing
		}
		var all []past
		span := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "lasts"))
		})
		epoch, own := int64(1), span.Draw(t, "own")
		f := Fence{}.Lasting(own)
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			epoch += rapid.Int64Range(1, time.Hour.Microseconds()).Draw(t, "pause")
			all = append(all, past{own, epoch})
			if rapid.Bool().Draw(t, "merges") {
				rival := span.Draw(t, "rival")
				other := Fence{}.Lasting(rival)
				all = append(all, past{rival, epoch})
				f = *f.merged(&other, epoch)
			}
			next := span.Draw(t, "next")
			f, own = Fence{}.Lasting(next).Counting(epoch, own).CountingOf(&f, epoch), next
			for _, p := range all {
				if epoch <= p.left+p.lasts.Microseconds() && f.Lasts < p.lasts {
					t.Fatalf("at %d %v are counted; %v were granted until %d", epoch, f.Lasts, p.lasts, p.left)
				}
			}
		}
		long := epoch + (3 * time.Hour).Microseconds()
		if again := (Fence{}.Lasting(own).Counting(long, own).CountingOf(&f, long)); again.Lasts != own ||
			again.Until != 0 {
			t.Fatalf("long after: %+v, own %v", again, own)
		}
	})
}
