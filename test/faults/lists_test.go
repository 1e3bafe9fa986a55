package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
)

// This file is about processes that list different nodes.

// oneLayout waits until all limiters have one settled layout. A process with another list does not
// reach every shard, so its Peek may fail in part.
func oneLayout(t *testing.T, limiters ...*shardlimit.Limiter) (st shardlimit.State) {
	t.Helper()
	last := limiters[len(limiters)-1]
	limittest.AwaitThat(t, "one settled layout", func() bool {
		var err error
		if st, err = last.Peek(context.Background()); err != nil || !st.Settled {
			return false
		}
		return !slices.ContainsFunc(limiters, func(l *shardlimit.Limiter) bool {
			own, _ := l.Peek(context.Background())
			return own.Epoch != st.Epoch || l.Limit() != st.Limit
		})
	})
	return st
}

// Processes with the old list of nodes and with the new one change a limit at once.
func TestProcessesWithDifferentNodesEndInOneLayout(t *testing.T) {
	t.Parallel()
	f, _ := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	older, newer := f.With(f.Nodes[:3]...), f
	limiters := append(older.Group(t, 2, "l", limit), newer.Group(t, 2, "l", limit)...)
	callers := limittest.NewTraffic(t)
	callers.Start(1, limiters...)
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
	st := oneLayout(t, limiters...)
	if !asked[st.Limit] {
		t.Errorf("%s is a mixture: nobody asked for it", st.Limit)
	}
	limittest.SharesSumTo(t, limiters[3], st.Limit.Permits)
	from := history.Now()
	ops, err := callers.During(3 * st.Limit.Per)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	limittest.KeepsTo(t, shardlimit.Limit{Permits: most, Per: shortest}, ops)
	worst := limittest.KeepsTo(t, st.Limit, limittest.Since(from, ops))
	t.Logf("%s on %v; %s; worst window at the end: %d", st.Limit, limittest.Hosts(st), callers, worst.Permits)
}

// A node is taken out without having been drained: also one that keeps the record. Those who do not
// list it any more use the other shards, and the limit holds.
func TestANodeTakenOutTooEarlyAddsNothing(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	f, _ := limittest.Independent(t, 4)
	for i := range f.Nodes {
		t.Run(f.Nodes[i].Name, func(t *testing.T) {
			t.Parallel()
			f := f.With(f.Nodes...)
			f.Prefix += fmt.Sprint(i, ":")
			all := f.Group(t, 2, "l", limit)
			callers := limittest.NewTraffic(t)
			callers.Start(2, all...)
			less := f.With(slices.Delete(slices.Clone(f.Nodes), i, i+1)...)
			few := less.Group(t, 2, "l", limit)
			callers.Start(2, few...)
			for k, l := range append(few, all...) {
				next := limit
				next.Shards = 3 + k
				err := l.SetLimit(t.Context(), next)
				var partial *shardlimit.ShardError
				if err != nil && !errors.As(err, &partial) {
					t.Errorf("%s: %v", next, err)
				}
			}
			oneLayout(t, append(few, all...)...)
			limittest.SharesSumTo(t, all[1], limit.Permits) // who knows that it is settled
			ops, err := callers.During(3 * limit.Per)
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			worst := limittest.KeepsTo(t, limit, ops)
			t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
		})
	}
}

// Many processes, with the old list of nodes and with the new one, begin at once under a key prefix
// that nobody has used, and for a second what they read and write of records comes late or not at
// all. Nobody uses a layout of its own beside that of others.
func TestDeclarationsThatMissEachOther(t *testing.T) {
	for round := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { declarationsMiss(t, rand.New(rand.NewPCG(round, 1))) })
	}
}

func declarationsMiss(t *testing.T, chance *rand.Rand) {
	var mu sync.Mutex
	begun := time.Now()
	lag := func() time.Duration { return time.Duration(chance.ExpFloat64() * float64(4*time.Millisecond)) }
	fate := func(words []string) (f redissim.Fate) {
		mu.Lock()
		defer mu.Unlock()
		f = redissim.Fate{There: lag(), Back: lag()}
		if time.Since(begun) < time.Second && len(words) > 3 && limittest.IsOfARecord(words[3]) {
			lost := chance.IntN(12)
			f.Refused, f.Lost, f.ReplyLost = lost == 0, lost == 1, lost == 2
		}
		return f
	}
	var servers []*redissim.Server
	for range 4 {
		s := redissim.NewServer(time.Now)
		servers = append(servers, s)
		go s.Serve()
		defer s.Close()
	}
	limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Shards: 4}
	var total atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		p := limittest.Fleet{Prefix: "b:", Punctual: true}
		for k, s := range servers[:3+i%2] {
			link := redissim.NewLink(s, fate, func() {})
			p.Nodes = append(p.Nodes, shardlimit.Node{Name: fmt.Sprint("n", k), Client: link})
		}
		c := p.Client(t)
		wg.Go(func() {
			defer c.Close()
			l, err := c.Limiter(t.Context(), "l", limit)
			if err != nil {
				t.Error(err)
				return
			}
			var failure error // of the last call
			for range 200 {
				var d shardlimit.Decision
				d, failure = l.AllowUpTo(t.Context(), limit.Permits) // as long as the limit is not known
				total.Add(d.Granted)
				time.Sleep(50 * time.Millisecond)
			}
			if total.Load() == 0 {
				t.Errorf("none is granted: %v", failure)
			}
		})
	}
	wg.Wait()
	time.Sleep(5 * time.Second) // what was under way ends
	// The share of one shard may be served later: its first call may have been lost.
	if n := total.Load(); n > limit.Permits || n < limit.Permits/4*3 {
		t.Errorf("%d of %d permits were granted", total.Load(), limit.Permits)
	}
}

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
	f, broken := limittest.BubbledNodes(t, nodes)
	f.Punctual = true
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 2}
	broken[away].Down.Store(true)
	limiters := []*shardlimit.Limiter{limittest.Limiter(t, f.Client(t), "l", limit)}
	if _, err := limiters[0].Peek(t.Context()); err != nil {
		var partial *shardlimit.ShardError
		if !errors.As(err, &partial) {
			t.Errorf("%s is away: %v", f.Nodes[away].Name, err)
		}
	}
	broken[away].Down.Store(false)
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
