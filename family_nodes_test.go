package shardlimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

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
		for _, c := range clients {
			if err := c.SetNodes(t.Context(), nodes); err != nil {
				t.Fatal(err)
			}
		}
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

// A family that the version before has declared is given the arrangement of its keys, and none of
// them is handed its limit again.
func TestAFamilyOfTheVersionBeforeIsGivenItsArrangement(t *testing.T) {
	for _, shards := range []int{1, 8} {
		f := standalone(t)
		limit := shardlimit.PerHour(11)
		limit.Shards = shards
		keyed(t, f.client(t), "users", limit)
		rewrite(t, f, func(blob string) string { return strings.Replace(blob, `"slots":256,`, "", 1) })
		used := all(t, keyed(t, f.client(t), "users", limit).Limiter("ann"), 4)
		before := rewrite(t, f, func(blob string) string { return blob[:strings.Index(blob, `,"keys":`)] + "}" })
		late := keyed(t, f.client(t), "users", limit)
		if st := peek(t, late.Limiter("bob")); st.Epoch <= before {
			t.Errorf("%d shards: epoch %d follows %d", shards, st.Epoch, before)
		}
		if got := used + all(t, late.Limiter("ann"), 11); got != 11 {
			t.Errorf("%d shards: %d of 11 permits", shards, got)
		}
		if got := all(t, late.Limiter("bob"), 11); got != 11 {
			t.Errorf("%d shards: a new key has %d of 11 permits", shards, got)
		}
	}
}

// rewrite brings the records of a family into a form of another version, and returns their epoch.
func rewrite(t *testing.T, f fleet, as func(blob string) string) (epoch int64) {
	t.Helper()
	c, err := rueidis.NewClient(f.nodes[0].Redis)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	for _, key := range keysUnder(t, c, f.prefix) {
		blob, err := c.Do(ctx, c.B().Hget().Key(key).Field("blob").Build()).ToString()
		if err != nil {
			continue // not a record
		}
		var l struct{ Epoch int64 }
		if err := json.Unmarshal([]byte(blob), &l); err != nil || as(blob) == blob {
			t.Fatalf("%s: %v", blob, err)
		}
		epoch = l.Epoch
		if err := c.Do(ctx,
			c.B().Hset().Key(key).FieldValue().FieldValue("blob", as(blob)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return epoch
}
