package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A node dies for good, undrained. A server that has just been started takes its name: what the
// dead one granted stays within the limit, and after a window all of it can be had again. Then the
// node is drained and taken out as any other.
func TestADeadServerIsReplacedByAnEmptyOne(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
	three := f.With(f.Nodes[:3]...)
	clients := []*shardlimit.Client{three.Client(t), three.Client(t)}
	var limiters []*shardlimit.Limiter
	for _, c := range clients {
		limiters = append(limiters, limittest.Limiter(t, c, "l", limit).As("all", 1))
	}
	callers := limittest.NewTraffic(t)
	callers.Dying = true // what the dead server granted cannot be given back
	callers.Start(2, limiters...)
	everywhere := func(nodes ...shardlimit.Node) {
		f.Restart(t, clients, nodes, func(i int, c *shardlimit.Client) {
			limiters[i] = limittest.Limiter(t, c, "l", limit).As("all", 1)
			callers.Hand(i, limiters[i])
		})
	}
	time.Sleep(3 * limit.Per) // an uptime is a difference of whole seconds: a limit as young would pass for new
	limittest.AwaitThat(t, "the limit is used",
		func() bool { return limittest.Peek(t, limiters[0]).Used >= limit.Permits*9/10 })
	servers[0].Kill()
	servers[3].Restart() // its uptime tells that it is empty
	replaced := f.Nodes[3]
	replaced.Name = f.Nodes[0].Name
	everywhere(replaced, f.Nodes[1], f.Nodes[2])
	limittest.AwaitThat(t, "the whole limit is there again", func() bool {
		st := limittest.Peek(t, limiters[0])
		var share int64
		for _, s := range st.Shards {
			if s.Err == nil && s.Quarantine == 0 {
				share += s.Share
			}
		}
		return share == limit.Permits && st.Used >= limit.Permits*9/10
	})
	limittest.SharesSumTo(t, limiters[0], limit.Permits)

	everywhere(limittest.Draining(replaced), f.Nodes[1], f.Nodes[2])
	if err := clients[0].Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := limittest.AwaitOneLayout(t, limiters); !slices.Equal(limittest.Hosts(st), []string{"n1", "n2"}) {
		t.Errorf("shards are on %v", limittest.Hosts(st))
	}
	everywhere(f.Nodes[1], f.Nodes[2])
	servers[3].Kill()
	limittest.SharesSumTo(t, limiters[0], limit.Permits)
	ops, err := callers.During(2 * limit.Per)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := limittest.KeepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}
