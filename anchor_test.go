package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/shard"
)

// Processes with the old list of nodes and with the new one change a limit at once.
func TestProcessesWithDifferentNodesEndInOneLayout(t *testing.T) {
	t.Parallel()
	f, _ := independent(t, 4)
	for round := range 4 { // the place of the anchor depends on the name
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("l", round)
			limit := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
			older, newer := f.with(f.nodes[:3]...), f
			limiters := append(older.group(t, 2, name, limit), newer.group(t, 2, name, limit)...)
			callers := newTraffic(t)
			callers.start(1, limiters...)
			asked := make(map[shardlimit.Limit]bool)
			most, shortest := limit.Permits, limit.Per
			var wg sync.WaitGroup
			for i := range 8 {
				next := shardlimit.Limit{
					Permits: int64(100 + 50*i), Per: 100*time.Millisecond + time.Duration(i)*20*time.Millisecond,
					Shards: 1 + 3*i%8,
				}
				asked[next] = true
				most, shortest = max(most, next.Permits), min(shortest, next.Per)
				wg.Go(func() {
					err := limiters[i%4].SetLimit(context.Background(), next)
					var partial *shardlimit.ShardError // on a node that only others know
					if err != nil && !(i%4 < 2 && errors.As(err, &partial)) {
						t.Errorf("%s: %v", next, err)
					}
				})
			}
			wg.Wait()
			var st shardlimit.State
			awaitThat(t, "one settled layout", func() bool {
				var err error
				st, err = limiters[3].Peek(context.Background())
				if err != nil || !st.Settled {
					return false
				}
				for _, l := range limiters {
					// A process with the old list does not reach every shard, so Peek may fail in
					// part.
					if own, _ := l.Peek(context.Background()); own.Epoch != st.Epoch || l.Limit() != st.Limit {
						return false
					}
				}
				return true
			})
			if !asked[st.Limit] {
				t.Errorf("%s is a mixture: nobody asked for it", st.Limit)
			}
			sharesSumTo(t, limiters[3], st.Limit.Permits)
			from := history.Now()
			ops, err := callers.during(3 * st.Limit.Per)
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			keepsTo(t, shardlimit.Limit{Permits: most, Per: shortest}, ops)
			worst := keepsTo(t, st.Limit, since(from, ops))
			t.Logf("%s on %v; %s; worst window at the end: %d", st.Limit, hosts(st), callers, worst.Permits)
		})
	}
}

// Processes that list different nodes declare a new limit at the same moment. Each would anchor it
// on another node; what they make of it is one limit all the same.
func TestProcessesWithDifferentNodesDeclareOneLimit(t *testing.T) {
	t.Parallel()
	f, _ := independent(t, 4)
	older, newer := f.with(f.nodes[:3]...), f
	var clients []*shardlimit.Client
	for range 2 {
		clients = append(clients, older.client(t), newer.client(t))
	}
	limit := shardlimit.Limit{Permits: 60, Per: 300 * time.Millisecond, Shards: 4}
	for round := range 12 {
		name := fmt.Sprint("l", round)
		callers := newTraffic(t)
		limiters := make([]*shardlimit.Limiter, len(clients))
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				limiters[i] = limiter(t, c, name, limit)
				callers.start(2, limiters[i])
			})
		}
		wg.Wait()
		awaitThat(t, "one layout", func() bool {
			var epoch int64
			for i, l := range limiters {
				st, _ := l.Peek(context.Background())
				if i == 0 {
					epoch = st.Epoch
				}
				if st.Epoch != epoch || !st.Settled {
					return false
				}
			}
			return true
		})
		ops, err := callers.during(limit.Per)
		if err != nil {
			t.Errorf("a call failed: %v", err)
		}
		keepsTo(t, limit, ops)
	}
}

// In the wrong order: the node that anchors the layout is taken out without having
// been drained. Those who do not list it any more use the other shards, and the limit holds.
func TestANodeTakenOutTooEarlyNeverMakesTheLimitMore(t *testing.T) {
	t.Parallel()
	f, _ := independent(t, 4)
	limit := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	for i := range f.nodes {
		t.Run(f.nodes[i].Name, func(t *testing.T) {
			t.Parallel()
			name := "without " + f.nodes[i].Name
			all := f.group(t, 2, name, limit)
			callers := newTraffic(t)
			callers.start(2, all...)
			less := f.with(slices.Delete(slices.Clone(f.nodes), i, i+1)...)
			few := less.group(t, 2, name, limit)
			callers.start(2, few...)
			for k, l := range append(few, all...) {
				next := limit
				next.Shards = 3 + k
				err := l.SetLimit(t.Context(), next)
				var partial *shardlimit.ShardError
				if err != nil && !errors.As(err, &partial) {
					t.Errorf("%s: %v", next, err)
				}
			}
			awaitThat(t, "one settled layout", func() bool {
				st, err := all[0].Peek(context.Background())
				if err != nil || !st.Settled {
					return false
				}
				for _, l := range append(all, few...) {
					if own, _ := l.Peek(context.Background()); own.Epoch != st.Epoch {
						return false
					}
				}
				return true
			})
			sharesSumTo(t, all[0], limit.Permits)
			ops, err := callers.during(3 * limit.Per)
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			worst := keepsTo(t, limit, ops)
			t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
		})
	}
}

// scribe is a Redis client of a process whose writes of records wait for a word.
type scribe struct {
	rueidis.Client
	node  string
	write func(node string, send func()) // calls send when it is time
}

func (s *scribe) Do(ctx context.Context, cmd rueidis.Completed) (result rueidis.RedisResult) {
	words := cmd.Commands() // EVALSHA name 1 key ...: of the scripts with one key only this one is about a record
	if (words[0] == "EVAL" || words[0] == "EVALSHA") && words[2] == "1" && strings.Contains(words[3], "}:r:") {
		s.write(s.node, func() { result = s.Client.Do(ctx, cmd) })
		return result
	}
	return s.Client.Do(ctx, cmd)
}

// Two processes that list different nodes have both found nothing and begin a limit at different
// places. The one whose layout is the older is through and uses it before the other looks anywhere
// but at its own place. The other must find that out, and not cover it up with its own layout
// because that is newer.
func TestALimitBegunElsewhereIsNotCoveredUp(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	name := ""
	for i := 0; name == ""; i++ { // a limit whose home is the node that only one of them knows
		var nodes []shard.Node
		for _, n := range f.nodes {
			nodes = append(nodes, shard.Node{Name: n.Name})
		}
		if try := fmt.Sprint("l", i); shard.Anchors("n:"+try, nodes)[0].Node == "n3" {
			name = try
		}
	}
	read, begun, used := make(chan bool), make(chan bool), make(chan bool)
	process := func(nodes int, write func(string, func())) *shardlimit.Client {
		p := f.with()
		for i, s := range servers[:nodes] {
			p.nodes = append(p.nodes,
				shardlimit.Node{Name: f.nodes[i].Name, Client: &scribe{s.Client(t), f.nodes[i].Name, write}})
		}
		return p.client(t)
	}
	var first sync.Once
	older := process(3, func(_ string, send func()) {
		first.Do(func() { close(read); <-begun })
		send()
	})
	var home sync.Once
	newer := process(4, func(node string, send func()) {
		if node == "n3" {
			send()
			home.Do(func() { close(begun) })
			return
		}
		<-used
		send()
	})
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4}
	var total atomic.Int64
	spend := func(c *shardlimit.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := c.Limiter(ctx, name, limit)
		if err != nil {
			t.Error(err)
			return
		}
		for range 3 {
			d, err := l.AllowUpTo(ctx, limit.Permits)
			if err != nil {
				t.Error(err)
			}
			total.Add(d.Granted)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { spend(older); close(used) })
	wg.Go(func() { <-read; spend(newer) })
	wg.Wait()
	if total.Load() != limit.Permits {
		t.Errorf("%d of %d permits were granted", total.Load(), limit.Permits)
	}
}
