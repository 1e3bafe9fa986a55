package promises

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Processes restart one by one with one node more and the limit is spread over it, then with
// another one that drains, and without that, all under load.
func TestNodesComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 800, Per: 400 * time.Millisecond, Shards: 6}
	three := f.With(f.Nodes[:3]...)
	clients := make([]*shardlimit.Client, 3)
	limiters := make([]*shardlimit.Limiter, 3)
	for i := range clients {
		clients[i] = three.Client(t)
		limiters[i] = limittest.Limiter(t, clients[i], "l", limit)
	}
	callers := limittest.NewTraffic(t)
	callers.Start(2, limiters...)
	everywhere := func(nodes ...shardlimit.Node) {
		f.Restart(t, clients, nodes, func(i int, c *shardlimit.Client) {
			limiters[i] = limittest.Limiter(t, c, "l", limit)
			callers.Hand(i, limiters[i])
		})
	}
	rebalance := func(want ...string) {
		t.Helper()
		limittest.Must(t, clients[1].Rebalance(t.Context()))
		st := limittest.AwaitOneLayout(t, limiters)
		if got := limittest.Hosts(st); !slices.Equal(got, want) {
			t.Errorf("shards are on %v, want %v", got, want)
		}
		limittest.SharesSumTo(t, limiters[0], limit.Permits)
		if st.Limit != limit {
			t.Errorf("the limit became %s", st.Limit)
		}
	}
	rebalance("n0", "n1", "n2") // nothing to do
	before := limittest.Peek(t, limiters[0]).Epoch
	everywhere(f.Nodes...)
	if st := limittest.Peek(t, limiters[0]); st.Epoch != before || len(limittest.Hosts(st)) != 3 {
		t.Errorf("another list alone changed the layout: %+v", st)
	}
	rebalance("n0", "n1", "n2", "n3")
	everywhere(f.Nodes[1], limittest.Draining(f.Nodes[0]), f.Nodes[2], f.Nodes[3])
	rebalance("n1", "n2", "n3")
	everywhere(f.Nodes[1:]...)
	servers[0].Kill()
	// With the node gone the limit can be used, joined and changed as before.
	late := f.With(f.Nodes[1:]...).Limiter(t, limit)
	limiters = append(limiters, late)
	callers.Start(2, late)
	before = limittest.Peek(t, late).Epoch
	if err := limiters[2].SetLimit(t.Context(), limit); err != nil {
		t.Errorf("SetLimit without the node that was drained: %v", err)
	}
	if st := limittest.AwaitOneLayout(t, limiters); st.Epoch <= before {
		t.Errorf("epoch %d does not follow %d", st.Epoch, before)
	}
	callers.KeepsTo(t, limit, 3*limit.Per)
}

// The more participants there are, the fewer shards are chosen, so that each has its part on every
// one.
func TestTheNumberOfShardsFollowsTheParticipants(t *testing.T) {
	f := limittest.InProcess(t, 4)
	limit := shardlimit.PerMinute(1000)
	has := func(l *shardlimit.Limiter, want int, of string) {
		t.Helper()
		if n := l.Limit().Shards; n != want {
			t.Errorf("%d shards, want %d %s", n, want, of)
		}
	}
	first := f.Limiter(t, limit)
	has(first, 2, "for the 16 participants that a new limit is taken to have")
	slower := first.Limit()
	slower.Permits = 900
	limittest.Must(t, first.SetLimit(t.Context(), slower))
	has(first, 2, "after a change that keeps them")
	limittest.Must(t, first.SetLimit(t.Context(), limit))
	has(first, 4, "for a single participant")
	others := f.Group(t, 12, "l", limit) // each 25 permits on 3 shards
	limittest.Must(t, others[0].Rebalance(t.Context()))
	has(others[0], 3, "for 13 participants")
}
