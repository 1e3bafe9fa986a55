package faults

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A node is lost, and the clock of another that keeps the membership is set back ten minutes. What
// the lost one had is served elsewhere in the usual time, by a process that saw it go out and by
// one that came later.
func TestATakeoverWhileAClockIsSetBack(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("the lost one keeps it: ", keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 4)
				fl.Punctual = true
				limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
				c := fl.Client(t, limittest.TakesOver)
				l := limittest.Limiter(t, c, "l", limit)
				limittest.Settled(t, l)
				lost, back := -1, -1
				for i, n := range fl.Nodes {
					switch place := slices.Contains(limittest.RecordNodes(c), n.Name); {
					case lost < 0 && place == keeps:
						lost = i
					case back < 0 && place:
						back = i
					}
				}
				nodes[lost].Down.Store(true)
				begun := time.Now()
				for ; time.Since(begun) < 8*time.Second; time.Sleep(100 * time.Millisecond) {
					_, _ = l.Allow(t.Context())
				}
				nodes[back].Redis.Step(-10 * time.Minute)
				whole := func(l *shardlimit.Limiter) bool {
					_, _ = l.Allow(t.Context())
					st, err := l.Peek(t.Context())
					return err == nil && st.Settled && limittest.SumOn(st, fl.Nodes[lost].Name) == limit.Permits
				}
				for !whole(l) {
					if time.Since(begun) > 2*time.Minute {
						t.Fatal("not taken over after two minutes")
					}
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begun); took > 20*time.Second {
					t.Errorf("taken over after %v", took)
				}
			})
		})
	}
}
