package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A waiter is served soon after a node is back that had all of the limit or a part, however long
// the window is: at the latest when the limiter looks at its record again, every 15 s. No waiter is
// told before that its deadline cannot be met.
func TestWaitersHearThatANodeIsBack(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		for _, n := range []int64{1, 2} {
			for _, kind := range []string{"limiter", "key"}[:3-nodes] { // a key has one shard
				t.Run(fmt.Sprintf("%d nodes, %d permits of a %s", nodes, n, kind), func(t *testing.T) {
					limittest.InBubble(t, nodes, func(t *testing.T, f limittest.Fleet) {
						c := f.Client(t, limittest.OnOutage(shardlimit.FailLocal),
							func(c *shardlimit.Config) { c.Participants = 1000 })
						l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: nodes})
						if kind == "key" {
							l = limittest.Family(t, c, "f", shardlimit.PerHour(100)).Limiter("k")
						}
						limittest.MustGet(t, l, 1)
						f.Bubble[nodes-1].Down.Store(true)
						limittest.Exhaust(t, l, 100)
						back := time.Now().Add(5 * time.Second)
						time.AfterFunc(time.Until(back), func() { f.Bubble[nodes-1].Down.Store(false) })
						for _, wait := range []func() error{
							func() error { return l.WaitN(limittest.Shortly(t, time.Minute), n) },
							func() error { return l.WaitN(t.Context(), n) },
						} {
							if err := wait(); err != nil || time.Since(back) > 20*time.Second {
								t.Errorf("%v, %s after the node is back", err, time.Since(back))
							}
						}
					})
				})
			}
		}
	}
}
