package shardlimit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Processes restart one by one with one node more and the limit is spread over it, then with
// another one that drains, and without that, all under load.
func TestNodesComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	limit := shardlimit.Limit{Permits: 800, Per: 400 * time.Millisecond, Shards: 6}
	three := f.with(f.nodes[:3]...)
	clients := make([]*shardlimit.Client, 3)
	limiters := make([]*shardlimit.Limiter, 3)
	for i := range clients {
		clients[i] = three.client(t)
		limiters[i] = limiter(t, clients[i], "l", limit)
	}
	callers := newTraffic(t)
	callers.start(2, limiters...)
	everywhere := func(nodes ...shardlimit.Node) {
		f.restart(t, clients, nodes, func(i int, c *shardlimit.Client) {
			limiters[i] = limiter(t, c, "l", limit)
			callers.hand(i, limiters[i])
		})
	}
	rebalance := func(want ...string) {
		t.Helper()
		if err := clients[1].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := awaitOneLayout(t, limiters)
		if got := hosts(st); !slices.Equal(got, want) {
			t.Errorf("shards are on %v, want %v", got, want)
		}
		sharesSumTo(t, limiters[0], limit.Permits)
		if st.Limit != limit {
			t.Errorf("the limit became %s", st.Limit)
		}
	}
	rebalance("n0", "n1", "n2") // nothing to do
	before := peek(t, limiters[0]).Epoch
	everywhere(f.nodes...)
	if st := peek(t, limiters[0]); st.Epoch != before || len(hosts(st)) != 3 {
		t.Errorf("another list alone changed the layout: %+v", st)
	}
	rebalance("n0", "n1", "n2", "n3")
	everywhere(f.nodes[1], draining(f.nodes[0]), f.nodes[2], f.nodes[3])
	rebalance("n1", "n2", "n3")
	everywhere(f.nodes[1:]...)
	servers[0].Kill()
	// With the node gone the limit can be used, joined and changed as before.
	late := limiter(t, f.with(f.nodes[1:]...).client(t), "l", limit)
	limiters = append(limiters, late)
	callers.start(2, late)
	before = peek(t, late).Epoch
	if err := limiters[2].SetLimit(t.Context(), limit); err != nil {
		t.Errorf("SetLimit without the node that was drained: %v", err)
	}
	if st := awaitOneLayout(t, limiters); st.Epoch <= before {
		t.Errorf("epoch %d does not follow %d", st.Epoch, before)
	}
	ops, err := callers.during(3 * limit.Per)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := keepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}

// The record of a limit moves off a node that drains, whichever of the three places it had there.
func TestDrainMovesTheRecords(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	first, c := f.client(t), f.with(append(slices.Clone(f.nodes[:3]), draining(f.nodes[3]))...).client(t)
	var names []string
	for i := range 24 {
		names = append(names, fmt.Sprint("l", i))
		limiter(t, first, names[i], shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1 + i%4})
		limiter(t, c, names[i], shardlimit.PerSecond(1))
	}
	first.Close()
	if err := c.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		l := limiter(t, c, name, shardlimit.PerSecond(1))
		awaitThat(t, "settled", func() bool { return peek(t, l).Settled })
	}
	servers[3].Kill()
	rest := f.with(f.nodes[:3]...).client(t)
	for _, name := range names {
		l, err := rest.Open(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if err := l.SetLimit(t.Context(), shardlimit.PerSecond(200)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The driver of a rebalancing dies half-way: another process finishes it.
func TestARebalancingWhoseProcessDiedIsFinishedByOthers(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 3)
	limit := shardlimit.Limit{Permits: 600, Per: 300 * time.Millisecond, Shards: 6}
	limiter(t, f.with(f.nodes[:2]...).client(t), "l", limit)
	limiters := f.group(t, 2, "l", limit)
	callers := newTraffic(t)
	callers.start(2, limiters...)
	var dying *shardlimit.Client
	d := &demise{heard: 2, end: func() { go dying.Close() }}
	broken := fleet{prefix: f.prefix}
	for i, s := range servers {
		broken.nodes = append(broken.nodes,
			shardlimit.Node{Name: f.nodes[i].Name, Client: &mortal{Client: s.Client(t), demise: d}})
	}
	dying = broken.client(t)
	setter := limiter(t, dying, "l", limit)
	d.armed.Store(true)
	if err := setter.Rebalance(t.Context()); err == nil {
		t.Error("Rebalance succeeded in a process that had died")
	}
	if !d.dead.Load() {
		t.Fatal("the process did not die")
	}
	awaitThat(t, "the change is finished", func() bool {
		for _, l := range limiters {
			if st, err := l.Peek(context.Background()); err != nil || len(hosts(st)) != 3 || !st.Settled {
				return false
			}
		}
		return true
	})
	sharesSumTo(t, limiters[0], limit.Permits)
	ops, err := callers.during(3 * limit.Per)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	keepsTo(t, limit, ops)
}

// With Shards 0 a limit gets a shard on a node that is added, with a number of its own it does not.
func TestRebalanceChoosesTheNumberOfShardsAnewOnlyIfItWasChosen(t *testing.T) {
	f, _ := independent(t, 3)
	var chosen, fixed *shardlimit.Limiter
	first, c := f.with(f.nodes[:2]...).client(t), f.client(t)
	for _, c := range []*shardlimit.Client{first, c} {
		chosen = limiter(t, c, "chosen", shardlimit.PerMinute(1000))
		fixed = limiter(t, c, "fixed", shardlimit.Limit{Permits: 1000, Per: time.Minute, Shards: 2})
	}
	first.Close()
	if err := c.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := chosen.Limit().Shards, fixed.Limit().Shards; a != 3 || b != 2 {
		t.Errorf("%d and %d shards", a, b)
	}
}

// The more participants there are, the fewer shards are chosen, so that each has its part on every
// one.
func TestTheNumberOfShardsFollowsTheParticipants(t *testing.T) {
	f := inProcess(t, 4)
	limit := shardlimit.PerMinute(1000)
	first := limiter(t, f.client(t), "l", limit)
	if n := first.Limit().Shards; n != 2 {
		t.Errorf("%d shards for the 16 participants that a new limit is taken to have, want 2", n)
	}
	if err := first.SetLimit(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if n := first.Limit().Shards; n != 4 {
		t.Errorf("%d shards for a single participant, want 4", n)
	}
	others := f.group(t, 12, "l", limit) // each 25 permits on 3 shards
	if err := others[0].Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := others[0].Limit().Shards; n != 3 {
		t.Errorf("%d shards for 13 participants, want 3", n)
	}
}
