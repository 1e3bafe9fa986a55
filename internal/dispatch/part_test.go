package dispatch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// Pieces that are cut from parts one after the other are the parts, once they are joined again.
func TestPartsAreCutAndJoined(t *testing.T) {
	seats := []*Seat{{}, {}}
	rapid.Check(t, func(t *rapid.T) {
		var whole, pieces []Part
		sum := int64(0)
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			p := Part{Seat: rapid.SampledFrom(seats).Draw(t, "seat"),
				At: clock.ServerTime(rapid.Int64Range(1, 2).Draw(t, "at")),
				N:  rapid.Int64Range(1, 10).Draw(t, "n")}
			whole, sum = joined(whole, p), sum+p.N
		}
		for at := int64(0); at < sum; {
			n := rapid.Int64Range(1, 10).Draw(t, "piece")
			cut := Cut(whole, at, n)
			got := int64(0)
			for _, p := range cut {
				got += p.N
			}
			if want := min(n, sum-at); got != want {
				t.Fatalf("%d permits from place %d on, not %d", got, at, want)
			}
			pieces, at = joined(pieces, cut...), at+n
		}
		if !slices.Equal(whole, pieces) {
			t.Fatalf("%v is cut into %v", whole, pieces)
		}
	})
}

// joined appends parts to others. Those in a row that one shard granted at one time become one.
func joined(parts []Part, more ...Part) []Part {
	for _, next := range more {
		if k := len(parts) - 1; k >= 0 && parts[k].Seat == next.Seat && parts[k].At == next.At {
			parts[k].N += next.N
		} else {
			parts = append(parts, next)
		}
	}
	return parts
}
