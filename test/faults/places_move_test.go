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

// Of six nodes two that keep records are drained as docs/howto/change-nodes.md says, and stopped.
// Everything is served on.
func TestDrainedPlacesMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 6)
		fl.Punctual = true
		limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
		clients := []*shardlimit.Client{fl.Client(t, limittest.TakesOver), fl.Client(t, limittest.TakesOver)}
		limiters := make([]*shardlimit.Limiter, 4)
		open := func(i int, c *shardlimit.Client) {
			limiters[i] = limittest.Limiter(t, c, "l", limit)
			limiters[i+1] = limittest.Family(t, c, "f", shardlimit.PerSecond(100)).Limiter("user")
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
		going := limittest.RecordNodes(clients[0])[:2]
		list := slices.Clone(fl.Nodes)
		for i := range list {
			list[i].Drain = slices.Contains(going, list[i].Name)
		}
		everywhere := func(list []shardlimit.Node) {
			fl.Restart(t, clients, list, func(i int, c *shardlimit.Client) { open(2*i, c) }, limittest.TakesOver)
		}
		everywhere(list)
		for _, c := range clients {
			if err := c.Rebalance(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		call(30 * time.Second)
		for i := 0; i < len(limiters); i += 2 {
			if st := limittest.Peek(t, limiters[i]); !st.Settled || len(limittest.Hosts(st)) != 4 {
				t.Fatal(fmt.Sprint("after the drain: ", limittest.Hosts(st), " settled: ", st.Settled))
			}
		}
		everywhere(slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain }))
		for i, n := range fl.Nodes {
			nodes[i].Down.Store(slices.Contains(going, n.Name))
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
		f, servers := limittest.Independent(t, 5)
		limit := shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4}
		clients := []*shardlimit.Client{f.With(f.Nodes[:began]...).Client(t)}
		old := limittest.Limiter(t, clients[0], "old", limit)
		again := func(_ int, c *shardlimit.Client) { old = limittest.Limiter(t, c, "old", limit) }
		f.Restart(t, clients, f.Nodes, again)
		going := limittest.RecordNodes(clients[0])[0]
		list := limittest.Drained(f.Nodes, func(i int) bool { return f.Nodes[i].Name == going })
		f.Restart(t, clients, list, again)
		if err := clients[0].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		limittest.AwaitThat(t, "nothing is left on the node", func() bool {
			st := limittest.Peek(t, old)
			return st.Settled && !slices.Contains(limittest.Hosts(st), going) && !slices.Contains(st.Records, going)
		})
		rest := slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain })
		f.Restart(t, clients, rest, again)
		servers[f.Index(going)].Kill()
		servers[f.Index(limittest.RecordNodes(clients[0])[1])].Kill()
		for i, c := range []*shardlimit.Client{clients[0], f.With(rest...).Client(t)} {
			l := limittest.Limiter(t, c, fmt.Sprint("new", i),
				shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4})
			if d, err := l.Allow(t.Context()); err != nil || !d.Allowed || d.Degraded {
				t.Errorf("of %d nodes, process %d: %+v, %v", began, i, d, err)
			}
			l = limittest.Limiter(t, c, "old", shardlimit.Limit{Permits: 60, Per: time.Minute, Shards: 4})
			changed := shardlimit.Limit{Permits: int64(70 + i), Per: time.Minute, Shards: 4}
			_ = l.SetLimit(t.Context(), changed) // a shard does not answer
			if got := l.Limit().Permits; got != changed.Permits {
				t.Errorf("of %d nodes, process %d: %d permits", began, i, got)
			}
		}
	}
}
