package faults

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// What a lost node has of a limit is served by the others, whatever it is that it does, and no
// window is ever over. When it is back, whether it remembers or not, it has a part again.
func TestALostNodeIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, f := range append([]limittest.NodeFailure{
		{Name: "comes back empty", Cause: func(p *limittest.ProxiedNode) { p.Server.Kill(); p.Proxy.Cut() },
			Cure: func(p *limittest.ProxiedNode) { p.Server.Restart() }},
	}, limittest.NodeFailures[1:]...) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			lostNodeIsTakenOver(t, f)
		})
	}
}

func lostNodeIsTakenOver(t *testing.T, f limittest.NodeFailure) {
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	fl, posts := limittest.Proxied(t, 4)
	var limiters []*shardlimit.Limiter
	for range 3 {
		limiters = append(limiters, limittest.Limiter(t,
			fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l", limit))
	}
	limittest.Settled(t, limiters[0])
	calls := limittest.NewTraffic(t)
	calls.Dying, calls.Rest, calls.Nodding = true, 80*time.Millisecond, 80*time.Millisecond // spares the processor
	calls.Start(2, limiters...)
	first := limittest.Peek(t, limiters[0])
	lost := posts[0].Name
	f.Cause(posts[0])
	began := time.Now()
	served := func(without string) bool {
		st, _ := limiters[1].Peek(t.Context())
		return st.Settled && st.Epoch > first.Epoch && limittest.SumOn(st, without) == limit.Permits
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "the others have all of it",
		func() bool { return served(lost) }, func() string {
			st, err := limiters[1].Peek(t.Context())
			return limittest.StateText(st, err)
		})
	for _, l := range limiters {
		limittest.AwaitWithin(t, limittest.TakenOverWithin, "each process has heard of it",
			func() bool { return limittest.SumOn(limittest.Peek(t, l), lost) == limit.Permits })
	}
	t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
	f.Cure(posts[0])
	began = time.Now()
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "it has a part again", func() bool {
		st, _ := limiters[2].Peek(t.Context())
		return st.Settled && limittest.SumOn(st, lost) < limit.Permits && limittest.SumOn(st, "") == limit.Permits
	})
	t.Logf("in again after %v", time.Since(began).Round(time.Millisecond))
	ops, err := calls.Stop()
	if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) { // the machine may be busy
		t.Error(err)
	}
	if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
		t.Errorf("over: %v", worst)
	}
}

// Where no majority of the nodes can be reached, the outage policy answers after at most five
// seconds, although a shard is there; and no longer once there is a majority again.
func TestWithoutAMajorityNobodyIsServed(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 3)
	l := limittest.Limiter(t, fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l",
		shardlimit.Limit{Permits: 3000, Per: time.Second, Shards: 3})
	limittest.Settled(t, l)
	for _, p := range posts[:2] {
		p.Proxy.Stall(true)
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "the outage policy answers", func() bool {
		_, err := l.Allow(t.Context())
		return errors.Is(err, shardlimit.ErrUnavailable) && strings.Contains(err.Error(), "no majority of the nodes")
	})
	if st, _ := l.Peek(t.Context()); limittest.SumOn(st, "") == 0 {
		t.Error("there is no shard that could have served")
	}
	for _, p := range posts[:2] {
		p.Proxy.Stall(false)
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "it is served", func() bool {
		d, err := l.Allow(t.Context())
		return err == nil && d.Allowed
	})
}

// What is wholly on a lost node is served elsewhere as soon as nobody relies on the node, and what
// was granted or reserved there has left the window: two windows.
func TestATakeoverWaitsForTwoWindows(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for name, family := range map[string]bool{"a limit": false, "a key": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 3)
				fl.Punctual = true
				var l *shardlimit.Limiter
				if client := fl.Client(t, limittest.TakesOver); family {
					l = limittest.Family(t, client, "f", limit).Limiter("user")
				} else {
					l = limittest.Limiter(t, client, "l", limit)
				}
				limittest.Settled(t, l)
				limittest.DrainSlowly(t, l)
				for i, n := range fl.Nodes {
					nodes[i].Down.Store(n.Name == limittest.Peek(t, l).Shards[0].Node)
				}
				lost := time.Now()
				least, most := 2*limit.Per, 2*limit.Per+17*time.Second
				for time.Since(lost) <= most {
					if d, err := l.Allow(t.Context()); err == nil && d.Granted > 0 {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if served := time.Since(lost); served < least || served > most {
					t.Errorf("it is served after %v, want %v to %v", served, least, most)
				}
			})
		})
	}
}

// A process that rested while a limit was lowered reserves no farther ahead than the new limit
// allows: a takeover does not wait for more.
func TestWhoRestedReservesByTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, _ := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		before := shardlimit.Limit{Permits: 1000, Per: time.Second, Shards: 1}
		rests, other := limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", before),
			limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", before)
		limittest.Settled(t, other)
		after := before
		after.Permits = 10
		if err := other.SetLimit(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		for range 25 {
			time.Sleep(time.Second)
			if _, err := other.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var farthest time.Duration
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				r, err := rests.Reserve(t.Context(), 10)
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				farthest = max(farthest, r.Delay())
			})
		}
		calls.Wait()
		if farthest == 0 || farthest > 3*after.Per {
			t.Errorf("reserved %v ahead", farthest)
		}
	})
}

// lostUnseen returns four nodes with a limit, of which the last is lost while no process is there.
func lostUnseen(t *testing.T) (limittest.Fleet, shardlimit.Limit) {
	fl, nodes := limittest.BubbledNodes(t, 4)
	fl.Punctual = true
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	first := fl.Client(t, limittest.TakesOver)
	limittest.Settled(t, limittest.Limiter(t, first, "l", limit))
	first.Close()
	nodes[3].Down.Store(true)
	return fl, limit
}

// A node that no process lists any more, without having been drained, is lost. What it has of a
// limit is served by the others all the same.
func TestAnUnlistedNodeIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, limit := lostUnseen(t)
		l := limittest.Limiter(t, fl.With(fl.Nodes[:3]...).Client(t, limittest.TakesOver), "l", limit)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			_, _ = l.Allow(t.Context())
		}
		if st, err := l.Peek(t.Context()); limittest.SumOn(st, "n3") != limit.Permits {
			t.Errorf("after a minute the others have %d of %d: %v", limittest.SumOn(st, "n3"), limit.Permits, err)
		}
	})
}

// Every process lives for three seconds. A lost node is taken over although none of them has missed
// it for long.
func TestShortLivedProcessesTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, limit := lostUnseen(t)
		var last shardlimit.State
		for range 20 {
			c := fl.Client(t, limittest.TakesOver)
			l := limittest.Limiter(t, c, "l", limit)
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				_, _ = l.Allow(t.Context())
			}
			last, _ = l.Peek(t.Context())
			c.Close()
		}
		if sum := limittest.SumOn(last, "n3"); sum != limit.Permits {
			t.Errorf("after a minute the others have %d of %d", sum, limit.Permits)
		}
	})
}

// Who declares a limit decides whether its lost nodes are taken over. It stays so, whoever joins,
// whatever changes the limit, until it is deleted.
func TestWhoDeclaresDecidesOnTakeover(t *testing.T) {
	for name, takeover := range map[string]bool{"with": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, _ := limittest.BubbledNodes(t, 3)
				fl.Punctual = true
				first, second := fl.Client(t), fl.Client(t, limittest.Wary)
				if takeover {
					first, second = second, first
				}
				limit := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3}
				l := limittest.Limiter(t, first, "l", limit)
				holds := func(l *shardlimit.Limiter, after string) {
					t.Helper()
					limittest.Settled(t, l)
					if st := limittest.Peek(t, l); st.Takeover != takeover {
						t.Errorf("%s: takeover is %v", after, st.Takeover)
					}
				}
				holds(l, "declared")
				other := limittest.Limiter(t, second, "l", limit)
				holds(other, "joined")
				limit.Permits = 60
				if err := other.SetLimit(t.Context(), limit); err != nil {
					t.Fatal(err)
				}
				holds(other, "changed")
				limit.Revision = 1
				holds(limittest.Limiter(t, second, "l", limit), "declared at a higher revision")
				if err := other.Rebalance(t.Context()); err != nil {
					t.Fatal(err)
				}
				holds(other, "rebalanced")
				limit.Shards = 0
				k := limittest.Family(t, first, "f", limit).Limiter("ann")
				holds(k, "a key")
				holds(limittest.Family(t, second, "f", limit).Limiter("ann"), "a key of a family that was joined")
				if err := other.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				takeover, limit.Shards = !takeover, 3
				holds(limittest.Limiter(t, second, "l", limit), "deleted and declared anew")
			})
		})
	}
}

// A process without a NodeTimeout obeys the membership of a limit that was declared with one: while
// it reaches no majority it grants nothing of a node that others have put out, and it puts nodes
// out.
func TestWhoHasNoNodeTimeoutObeysATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		limit := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3}
		declares := fl.Client(t, limittest.Wary)
		limittest.Settled(t, limittest.Limiter(t, declares, "l", limit))
		l := limittest.Limiter(t, fl.Client(t), "l", limit)
		limittest.Settled(t, l)
		declares.Close()
		nodes[0].Down.Store(true)
		for range 60 { // DefaultNodeTimeout, and what was granted has left the window
			_, _ = l.AllowUpTo(t.Context(), 30)
			time.Sleep(500 * time.Millisecond)
		}
		if st := limittest.Peek(t, l); limittest.SumOn(st, fl.Nodes[0].Name) != limit.Permits || len(st.Lost) != 1 {
			t.Errorf("what the lost node had was not taken over: %+v", st)
		}
	})
}

// With fewer than three nodes there is no takeover, and a limit says so.
func TestATakeoverNeedsThreeNodes(t *testing.T) {
	t.Parallel()
	fl, _ := limittest.Independent(t, 2)
	l := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", shardlimit.Limit{Permits: 10, Per: time.Second})
	if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if limittest.Peek(t, l).Takeover {
		t.Error("the limit claims a takeover")
	}
}
