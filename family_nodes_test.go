package shardlimit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// On servers, too: nodes that are added and drained hand no key its limit a second time.
func TestNodesOfAFamilyChangeOnServers(t *testing.T) {
	t.Parallel()
	f, _ := independent(t, 4)
	limit := shardlimit.PerHour(10)
	var clients []*shardlimit.Client
	var families []*shardlimit.Family
	join := func(nodes ...shardlimit.Node) {
		c := f.with(nodes...).client(t)
		clients, families = append(clients, c), append(families, keyed(t, c, "users", limit))
	}
	everywhere := func(nodes ...shardlimit.Node) {
		f.restart(t, clients, nodes,
			func(i int, c *shardlimit.Client) { families[i] = keyed(t, c, "users", limit) })
	}
	nothing := func(when string) {
		t.Helper()
		for k := range 30 {
			for i, users := range families {
				if got := all(t, users.Limiter(fmt.Sprint("user ", k)), 10); got != 0 {
					t.Errorf("%s process %d had %d permits more of key %d", when, i, got, k)
				}
			}
		}
	}
	join(f.nodes[:2]...)
	join(f.nodes[:2]...)
	for k := range 30 {
		if got := all(t, families[k%2].Limiter(fmt.Sprint("user ", k)), 10); got != 10 {
			t.Fatalf("key %d had %d permits", k, got)
		}
	}
	everywhere(f.nodes[:3]...)
	join(f.nodes[:3]...)
	nothing("before the move")
	for i, nodes := range [][]shardlimit.Node{f.nodes[:3], f.nodes,
		{draining(f.nodes[0]), f.nodes[1], f.nodes[2], f.nodes[3]}} {
		everywhere(nodes...)
		if err := families[i%len(families)].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		join(nodes...)
		nothing(fmt.Sprint("after move ", i))
	}
	if got := homes(t, families[len(families)-1]); !slices.Equal(got, []string{"n1", "n2", "n3"}) {
		t.Errorf("keys are to be on %v", got)
	}
	for k := range 10 {
		var got int64
		for _, users := range families {
			got += all(t, users.Limiter(fmt.Sprint("new ", k)), 10)
		}
		if got != 10 {
			t.Errorf("new key %d had %d permits", k, got)
		}
	}
}
