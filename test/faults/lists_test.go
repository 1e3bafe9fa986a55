package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// This file is about processes that list different nodes.

// A limit begins while one node is away. A process that lists all nodes but another one comes when
// it is back, and finds the record.
func TestALimitBegunInAnOutageIsFound(t *testing.T) {
	for _, nodes := range []int{3, 4, 6, 9} {
		if race.Enabled && nodes > 4 {
			continue // the detector finds the same in few worlds
		}
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			for away := range nodes {
				for unlisted := range nodes {
					if away != unlisted {
						synctest.Test(t, func(t *testing.T) { beginsWhileANodeIsAway(t, nodes, away, unlisted) })
					}
				}
			}
		})
	}
}

func beginsWhileANodeIsAway(t *testing.T, nodes, away, unlisted int) {
	f := limittest.Bubbled(t, nodes)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 2}
	f.Bubble[away].Down.Store(true)
	limiters := []*shardlimit.Limiter{f.Limiter(t, limit)}
	if _, err := limiters[0].Peek(t.Context()); err != nil {
		var partial *shardlimit.ShardError
		if !errors.As(err, &partial) {
			t.Errorf("%s is away: %v", f.Nodes[away].Name, err)
		}
	}
	f.Bubble[away].Down.Store(false)
	used := int64(0)
	for range 80 { // until the record is there, too
		time.Sleep(time.Second)
		if d, err := limiters[0].Allow(t.Context()); err == nil {
			used += d.Granted
		}
	}
	joins := f.With(slices.Delete(slices.Clone(f.Nodes), unlisted, unlisted+1)...).Client(t)
	limiters = append(limiters, limittest.Limiter(t, joins, "l", limit))
	total := used
	for _, l := range limiters {
		d, err := l.AllowUpTo(t.Context(), limit.Permits)
		if err != nil {
			t.Errorf("%s was away, %s is not listed: %v", f.Nodes[away].Name, f.Nodes[unlisted].Name, err)
		}
		total += d.Granted
	}
	if total > limit.Permits {
		t.Errorf("%s was away, %s is not listed: %d of %d permits were granted", f.Nodes[away].Name,
			f.Nodes[unlisted].Name, total, limit.Permits)
	}
}

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
	callers.Dying, callers.Rest = true, 10*time.Millisecond // what the dead server granted cannot be given back
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
	limittest.Must(t, clients[0].Rebalance(t.Context()))
	if st := limittest.AwaitOneLayout(t, limiters); !slices.Equal(limittest.Hosts(st), []string{"n1", "n2"}) {
		t.Errorf("shards are on %v", limittest.Hosts(st))
	}
	everywhere(f.Nodes[1], f.Nodes[2])
	servers[3].Kill()
	limittest.SharesSumTo(t, limiters[0], limit.Permits)
	callers.KeepsTo(t, limit, 2*limit.Per)
}

// TestANodeThatIsNotListedIsNamed: an error of a limit whose only shard is on such a node says so,
// and which one it is.
func TestANodeThatIsNotListedIsNamed(t *testing.T) {
	f, _ := limittest.Independent(t, 2)
	all := f.Client(t)
	for i := range 100 {
		name, limit := fmt.Sprint("l", i), shardlimit.PerSecond(10)
		st := limittest.Peek(t, limittest.Limiter(t, all, name, limit))
		other := st.Shards[0].Node
		listed := slices.DeleteFunc(slices.Clone(f.Nodes), func(n shardlimit.Node) bool { return n.Name == other })
		if !slices.Contains(st.Records, listed[0].Name) {
			continue // nobody would know of the limit
		}
		l := limittest.Limiter(t, f.With(listed...).Client(t), name, limit)
		_, err := l.Allow(t.Context())
		_, unseen := l.Peek(t.Context())
		for of, err := range map[string]error{"Allow": err, "Peek": unseen, "Reset": l.Reset(t.Context())} {
			var at *shardlimit.ShardError
			if of == "Allow" && !errors.Is(err, shardlimit.ErrUnavailable) || !errors.As(err, &at) ||
				at.Node != other || !strings.Contains(err.Error(), "is not in this process' Config") {
				t.Errorf("%s: %v", of, err)
			}
		}
		return
	}
	t.Error("all limits are on the node that keeps the records")
}
