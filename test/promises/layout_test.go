package promises

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestMixedDeclarationsConvergeOnOneLayout(t *testing.T) {
	t.Parallel()
	base := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	f, _ := limittest.Independent(t, 4)
	for name, other := range map[string]shardlimit.Limit{
		"limit":    {Permits: 900, Per: 500 * time.Millisecond, Shards: 8},
		"revision": {Permits: 150, Per: 200 * time.Millisecond, Shards: 8, Revision: 1},
	} {
		t.Run(name, func(t *testing.T) {
			const processes = 6
			limiters := make([]*shardlimit.Limiter, processes)
			clients := make([]*shardlimit.Client, processes)
			for i := range clients {
				clients[i] = f.Client(t)
			}
			callers := limittest.NewTraffic(t)
			callers.Rest = 2 * time.Millisecond
			var wg sync.WaitGroup
			for i, c := range clients { // all at once, and in use from the first moment
				wg.Go(func() {
					declared := base
					if i%2 == 1 {
						declared = other
					}
					limiters[i] = limittest.Limiter(t, c, name, declared)
					callers.Start(2, limiters[i])
				})
			}
			wg.Wait()
			limittest.AwaitOneLayout(t, limiters)
			from := history.Now()
			ops, err := callers.During(3 * max(base.Per, other.Per))
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			inForce := limiters[0].Limit()
			if other.Revision > 0 && inForce != other {
				t.Errorf("%s is in force, the highest revision is %s", inForce, other)
			}
			if inForce != base && inForce != other {
				t.Errorf("nobody declared %s", inForce)
			}
			worst := limittest.KeepsTo(t, inForce, limittest.Since(from, ops))
			if other.Revision == 0 { // never anything else was in force
				worst = limittest.KeepsTo(t, inForce, ops)
			}
			t.Logf("%s; worst window: %d; %s", inForce, worst.Permits, callers)
		})
	}
}

// TestSetLimitNeverExceedsTheGreaterLimit: under load, no window that overlaps a change holds more
// than the greater limit, and none after it more than the new one.
func TestSetLimitNeverExceedsTheGreaterLimit(t *testing.T) {
	t.Parallel()
	const w = 150 * time.Millisecond
	f, _ := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 1000, Per: w, Shards: 4}
	limiters := f.Group(t, 4, "l", limit)
	callers := limittest.NewTraffic(t)
	callers.Rest = 2 * time.Millisecond
	callers.Start(2, limiters...)
	type change struct {
		limit            shardlimit.Limit
		called, returned int64
	}
	changes := []change{{limit: limit, returned: history.Now()}}
	for i, next := range []shardlimit.Limit{
		{Permits: 3000, Per: w, Shards: 4},     // rate up
		{Permits: 500, Per: w, Shards: 4},      // rate down
		{Permits: 500, Per: 2 * w, Shards: 4},  // longer window
		{Permits: 500, Per: w, Shards: 16},     // shorter window, more shards
		{Permits: 2000, Per: 2 * w, Shards: 3}, // fewer shards
	} {
		limittest.AwaitThat(t, "half of the limit is in use", func() bool {
			st, err := limiters[0].Peek(context.Background())
			return err == nil && st.Used >= st.Limit.Permits/2
		})
		time.Sleep(3 * changes[i].limit.Per) // how long it is in use; nothing is right because of it
		c := change{limit: next, called: history.Now()}
		limittest.Must(t, limiters[i%len(limiters)].SetLimit(t.Context(), next))
		c.returned = history.Now()
		changes = append(changes, c)
		if st := limittest.AwaitOneLayout(t, limiters); st.Limit != next {
			t.Errorf("%s is in force instead of %s", st.Limit, next)
		}
		limittest.SharesSumTo(t, limiters[i%len(limiters)], next.Permits)
	}
	time.Sleep(6 * w)
	ops, err := callers.Stop()
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	t.Log(callers)
	changes = append(changes, change{called: history.Now()})
	for i, c := range changes[1 : len(changes)-1] {
		before, until := changes[i], changes[i+2].called
		greater := shardlimit.Limit{Permits: max(before.limit.Permits, c.limit.Permits),
			Per: min(before.limit.Per, c.limit.Per)}
		limittest.KeepsTo(t, greater, between(before.returned, until, ops))
		limittest.KeepsTo(t, c.limit, between(c.returned, until, ops))
	}
}

// A process changes the limit and is gone half-way: others that use the limit
// find the change and finish it. If a shard has heard of it they learn it from
// there with their next call; if only the record has, when they next look it up.
func TestAChangeWhoseProcessDiedIsFinishedByOthers(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 2)
	before := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	for _, death := range []struct {
		name  string
		heard int64 // shards that heard of the change
		after shardlimit.Limit
	}{
		{"before any shard heard of it", 0, shardlimit.Limit{Permits: 900, Per: 200 * time.Millisecond, Shards: 9}},
		{"when one shard had heard of it, more shards", 1,
			shardlimit.Limit{Permits: 900, Per: 200 * time.Millisecond, Shards: 9}},
		{"when two shards had heard of it, fewer shards", 2,
			shardlimit.Limit{Permits: 100, Per: 300 * time.Millisecond, Shards: 2}},
	} {
		t.Run(death.name, func(t *testing.T) {
			t.Parallel()
			limiters := f.Group(t, 3, death.name, before)
			var dying *shardlimit.Client
			d := &limittest.Demise{Heard: death.heard, End: func() { go dying.Close() }}
			broken := limittest.Fleet{Prefix: f.Prefix}
			for i, s := range servers {
				broken.Nodes = append(broken.Nodes,
					shardlimit.Node{Name: f.Nodes[i].Name, Client: &limittest.Mortal{Client: s.Client(t), Demise: d}})
			}
			dying = broken.Client(t)
			setter := limittest.Limiter(t, dying, death.name, before)
			callers := limittest.NewTraffic(t)
			callers.Start(1, limiters...)
			called := history.Now()
			d.Armed.Store(true)
			if err := setter.SetLimit(t.Context(), death.after); err == nil {
				t.Error("SetLimit succeeded in a process that had died")
			}
			if !d.Dead.Load() {
				t.Fatal("the process did not die")
			}
			limittest.AwaitThat(t, "the change is known and finished", func() bool {
				for _, l := range limiters {
					if st, err := l.Peek(context.Background()); err != nil || st.Limit != death.after || !st.Settled {
						return false
					}
				}
				return true
			})
			settled := history.Now()
			limittest.SharesSumTo(t, limiters[0], death.after.Permits)
			ops, err := callers.During(3 * death.after.Per)
			if err != nil {
				t.Errorf("a call failed: %v", err)
			}
			limittest.KeepsTo(t,
				shardlimit.Limit{Permits: max(before.Permits, death.after.Permits),
					Per: min(before.Per, death.after.Per)}, ops)
			limittest.KeepsTo(t, death.after, limittest.Since(settled, ops))
			t.Logf("finished after %s; %s", time.Duration(settled-called).Round(time.Millisecond), callers)
		})
	}
}

// A process forgets the shards of a layout with it, however often a limit moves. Shards of an
// algorithm that the limit had before never return.
func TestShardsOfEarlierLayoutsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 3)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3})
		for i := range 8 {
			next := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3,
				Algorithm: []shardlimit.Algorithm{shardlimit.SlidingCounter, shardlimit.SlidingLog,
					shardlimit.TokenBucket}[i%3]}
			limittest.Must(t, l.SetLimit(t.Context(), next))
			for range 20 {
				_, _ = l.Allow(t.Context())
				time.Sleep(500 * time.Millisecond)
			}
			limittest.Settled(t, l)
		}
		if lanes, seats := limittest.Remembers(l); lanes > 6 || seats > 6 {
			t.Errorf("it has %d lanes and %d seats for a limit of three shards", lanes, seats)
		}
	})
}

// The log says once that a stored limit overrules a declaration.
func TestADeclarationThatIsNotInForceSaysSo(t *testing.T) {
	servers := limittest.Standalone(t)
	stored := shardlimit.PerHour(2000)
	first := servers.Client(t)
	limittest.Limiter(t, first, "l", stored)
	limittest.Family(t, first, "f", stored)
	for name, c := range map[string]struct {
		declared shardlimit.Limit
		inForce  bool
	}{
		"the same":       {stored, true},
		"another number": {shardlimit.PerHour(500), false},
		"another algorithm": {shardlimit.Limit{Permits: 2000, Per: time.Hour, Algorithm: shardlimit.FixedWindow},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			client := servers.Client(t,
				func(cfg *shardlimit.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			for range 2 {
				limittest.Limiter(t, client, "l", c.declared)
				limittest.Family(t, client, "f", c.declared)
			}
			want := 2 // one of the limit, one of the family
			if c.inForce {
				want = 0
			}
			if n := strings.Count(log.String(), "is not in force"); n != want {
				t.Errorf("%d lines in the log, want %d: %s", n, want, log.String())
			}
		})
	}
}
