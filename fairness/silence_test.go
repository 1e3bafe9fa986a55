package fairness

import (
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedLeavers: what those who leave had is with the others within a window and a half. All
// want half as much again as they get at first.
func TestSimulatedLeavers(t *testing.T) {
	for _, limit := range []int64{2000, 20000} {
		for _, shards := range []int{1, 8} {
			if limit == 20000 && !extent.Full {
				continue
			}
			t.Run(fmt.Sprint(limit, " ", shards), func(t *testing.T) {
				t.Parallel()
				s := newSim(t, limit, shards)
				for i := range 50 {
					s.add(1000, func(now int64) float64 {
						if i < 10 && now >= 7*simWindow/2 {
							return 0
						}
						return 1.5 * float64(limit) / 50
					})
				}
				s.run(5, 0)
				others := int64(0)
				for _, c := range s.clients[10:] {
					others += c.perWindow[4] // half a window to one and a half after they have left
				}
				t.Logf("the others have %.3f of the limit", float64(others)/float64(limit))
				if others*100 < limit*95 { // seen: .963 to .988
					t.Error("the part of those who left is wasted")
				}
			})
		}
	}
}
