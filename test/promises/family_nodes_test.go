package promises

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// On servers, too: nodes that are added and drained hand no key its limit a second time.
func TestNodesOfAFamilyChangeOnServers(t *testing.T) {
	t.Parallel()
	f, _ := limittest.Independent(t, 4)
	limit := shardlimit.PerHour(10)
	var clients []*shardlimit.Client
	var families []*shardlimit.Family
	join := func(nodes ...shardlimit.Node) {
		c := f.With(nodes...).Client(t)
		clients, families = append(clients, c), append(families, limittest.Family(t, c, "users", limit))
	}
	everywhere := func(nodes ...shardlimit.Node) {
		f.Restart(t, clients, nodes,
			func(i int, c *shardlimit.Client) { families[i] = limittest.Family(t, c, "users", limit) })
	}
	nothing := func(when string) {
		t.Helper()
		for k := range 30 {
			for i, users := range families {
				if got := limittest.Exhaust(t, users.Limiter(fmt.Sprint("user ", k)), 10); got != 0 {
					t.Errorf("%s process %d had %d permits more of key %d", when, i, got, k)
				}
			}
		}
	}
	join(f.Nodes[:2]...)
	join(f.Nodes[:2]...)
	for k := range 30 {
		if got := limittest.Exhaust(t, families[k%2].Limiter(fmt.Sprint("user ", k)), 10); got != 10 {
			t.Fatalf("key %d had %d permits", k, got)
		}
	}
	everywhere(f.Nodes[:3]...)
	join(f.Nodes[:3]...)
	nothing("before the move")
	for i, nodes := range [][]shardlimit.Node{f.Nodes[:3], f.Nodes,
		{limittest.Draining(f.Nodes[0]), f.Nodes[1], f.Nodes[2], f.Nodes[3]}} {
		everywhere(nodes...)
		if err := families[i%len(families)].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		join(nodes...)
		nothing(fmt.Sprint("after move ", i))
	}
	if got := limittest.HomesOfKeys(t, families[len(families)-1]); !slices.Equal(got, []string{"n1", "n2", "n3"}) {
		t.Errorf("keys are to be on %v", got)
	}
	for k := range 10 {
		var got int64
		for _, users := range families {
			got += limittest.Exhaust(t, users.Limiter(fmt.Sprint("new ", k)), 10)
		}
		if got != 10 {
			t.Errorf("new key %d had %d permits", k, got)
		}
	}
}
