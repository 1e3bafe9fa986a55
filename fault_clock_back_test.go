package shardlimit_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A node is lost, and the clock of another that keeps the membership is set back ten minutes. What
// the lost one had is served elsewhere in the usual time, by a process that saw it go out and by
// one that came later.
func TestATakeoverWhileAClockIsSetBack(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("the lost one keeps it: ", keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := bubbledNodes(t, 4)
				fl.punctual = true
				limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
				c := fl.client(t, takesOver)
				l := limiter(t, c, "l", limit)
				settled(t, l)
				lost, back := -1, -1
				for i, n := range fl.nodes {
					switch place := slices.Contains(c.RecordNodes(), n.Name); {
					case lost < 0 && place == keeps:
						lost = i
					case back < 0 && place:
						back = i
					}
				}
				nodes[lost].down.Store(true)
				begun := time.Now()
				for ; time.Since(begun) < 8*time.Second; time.Sleep(100 * time.Millisecond) {
					_, _ = l.Allow(t.Context())
				}
				nodes[back].redis.Step(-10 * time.Minute)
				whole := func(l *shardlimit.Limiter) bool {
					_, _ = l.Allow(t.Context())
					st, err := l.Peek(t.Context())
					return err == nil && st.Settled && sumOn(st, fl.nodes[lost].Name) == limit.Permits
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
