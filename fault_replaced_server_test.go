package shardlimit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A node dies for good, undrained. A server that has just been started takes its name: what the
// dead one granted stays within the limit, and after a window all of it can be had again. Then the
// node is drained and taken out as any other.
func TestAServerThatDiedForGoodIsReplacedByAnEmptyOne(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
	three := f.with(f.nodes[:3]...)
	clients := []*shardlimit.Client{three.client(t), three.client(t)}
	var limiters []*shardlimit.Limiter
	for _, c := range clients {
		limiters = append(limiters, limiter(t, c, "l", limit).As("all", 1))
	}
	callers := newTraffic(t)
	callers.dying = true // what the dead server granted cannot be given back
	callers.start(2, limiters...)
	everywhere := func(nodes ...shardlimit.Node) {
		f.restart(t, clients, nodes, func(i int, c *shardlimit.Client) {
			limiters[i] = limiter(t, c, "l", limit).As("all", 1)
			callers.hand(i, limiters[i])
		})
	}
	time.Sleep(3 * limit.Per) // an uptime is a difference of whole seconds: a limit as young would pass for new
	awaitThat(t, "the limit is used", func() bool { return peek(t, limiters[0]).Used >= limit.Permits*9/10 })
	servers[0].Kill()
	servers[3].Restart() // its uptime tells that it is empty
	replaced := f.nodes[3]
	replaced.Name = f.nodes[0].Name
	everywhere(replaced, f.nodes[1], f.nodes[2])
	awaitThat(t, "the whole limit is there again", func() bool {
		st := peek(t, limiters[0])
		var share int64
		for _, s := range st.Shards {
			if s.Err == nil && s.Quarantine == 0 {
				share += s.Share
			}
		}
		return share == limit.Permits && st.Used >= limit.Permits*9/10
	})
	sharesSumTo(t, limiters[0], limit.Permits)

	everywhere(draining(replaced), f.nodes[1], f.nodes[2])
	if err := clients[0].Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := awaitOneLayout(t, limiters); !slices.Equal(hosts(st), []string{"n1", "n2"}) {
		t.Errorf("shards are on %v", hosts(st))
	}
	everywhere(f.nodes[1], f.nodes[2])
	servers[3].Kill()
	sharesSumTo(t, limiters[0], limit.Permits)
	ops, err := callers.during(2 * limit.Per)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := keepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}
