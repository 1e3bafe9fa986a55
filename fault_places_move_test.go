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

// On real servers: one of those that keep the records is drained and stopped, and then another one.
// A new limit is declared, and one from before is changed, by a process that knew them and by one
// that begins then.
func TestAnotherPlaceDownAfterADrain(t *testing.T) {
	t.Parallel()
	for _, began := range []int{1, 3, 4} { // so many nodes were listed when the records began
		f, servers := independent(t, 5)
		limit := shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4}
		clients := []*shardlimit.Client{f.with(f.nodes[:began]...).client(t)}
		old := limiter(t, clients[0], "old", limit)
		again := func(_ int, c *shardlimit.Client) { old = limiter(t, c, "old", limit) }
		f.restart(t, clients, f.nodes, again)
		going := clients[0].RecordNodes()[0]
		list := drained(f.nodes, func(i int) bool { return f.nodes[i].Name == going })
		f.restart(t, clients, list, again)
		if err := clients[0].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitThat(t, "nothing is left on the node", func() bool {
			st := peek(t, old)
			return st.Settled && !slices.Contains(hosts(st), going) && !slices.Contains(st.Records, going)
		})
		rest := slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain })
		f.restart(t, clients, rest, again)
		servers[f.index(going)].Kill()
		servers[f.index(clients[0].RecordNodes()[1])].Kill()
		for i, c := range []*shardlimit.Client{clients[0], f.with(rest...).client(t)} {
			l := limiter(t, c, fmt.Sprint("new", i), shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4})
			if d, err := l.Allow(t.Context()); err != nil || !d.Allowed || d.Degraded {
				t.Errorf("of %d nodes, process %d: %+v, %v", began, i, d, err)
			}
			l = limiter(t, c, "old", shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4})
			changed := shardlimit.Limit{Permits: int64(70 + i), Per: time.Minute, Shards: 4}
			_ = l.SetLimit(t.Context(), changed) // a shard does not answer
			if got := l.Limit().Permits; got != changed.Permits {
				t.Errorf("of %d nodes, process %d: %d permits", began, i, got)
			}
		}
	}
}
