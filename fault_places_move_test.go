package shardlimit_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Of six nodes two that keep records are drained as docs/howto/change-nodes.md says, and stopped.
// Everything is served on.
func TestDrainedPlacesMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 6)
		fl.punctual = true
		limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
		clients := []*shardlimit.Client{fl.client(t, takesOver), fl.client(t, takesOver)}
		limiters := make([]*shardlimit.Limiter, 4)
		open := func(i int, c *shardlimit.Client) {
			limiters[i] = limiter(t, c, "l", limit)
			limiters[i+1] = keyed(t, c, "f", shardlimit.PerSecond(100)).Limiter("user")
		}
		for i, c := range clients {
			open(2*i, c)
		}
		call := func(d time.Duration) (calls, served int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for _, l := range limiters {
					calls++
					if d, err := l.Allow(t.Context()); err == nil && d.Allowed {
						served++
					}
				}
			}
			return calls, served
		}
		call(5 * time.Second)
		going := clients[0].RecordNodes()[:2]
		list := slices.Clone(fl.nodes)
		for i := range list {
			list[i].Drain = slices.Contains(going, list[i].Name)
		}
		everywhere := func(list []shardlimit.Node) {
			fl.restart(t, clients, list, func(i int, c *shardlimit.Client) { open(2*i, c) }, takesOver)
		}
		everywhere(list)
		for _, c := range clients {
			if err := c.Rebalance(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		call(30 * time.Second)
		for i := 0; i < len(limiters); i += 2 {
			if st := peek(t, limiters[i]); !st.Settled || len(hosts(st)) != 4 {
				t.Fatal(fmt.Sprint("after the drain: ", hosts(st), " settled: ", st.Settled))
			}
		}
		everywhere(slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain }))
		for i, n := range fl.nodes {
			nodes[i].down.Store(slices.Contains(going, n.Name))
		}
		call(30 * time.Second)
		if calls, served := call(10 * time.Second); served < calls*99/100 {
			t.Errorf("%d of %d calls are served", served, calls)
		}
	})
}
