package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// What a server that was killed has of a limit is served by the others, and no window is ever over.
// When it is back, empty, it has a part again.
func TestAKilledServerIsTakenOver(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	fl, posts := limittest.Proxied(t, 4)
	lost := posts[0].Name
	limiters := fl.Group(t, 3, "l", limit, limittest.PatientFor(250*time.Millisecond), limittest.Wary)
	limittest.Settled(t, limiters[0])
	calls := limittest.NewTraffic(t)
	calls.Dying, calls.Rest, calls.Nodding = true, 80*time.Millisecond, 80*time.Millisecond // spares the processor
	calls.Start(2, limiters...)
	everywhere := func(what string, taken bool) {
		t.Helper()
		for _, l := range limiters {
			limittest.AwaitWithin(t, limittest.TakenOverWithin, what, func() bool {
				st, _ := l.Peek(t.Context())
				others := limittest.SumOn(st, lost)
				return st.Settled && limittest.SumOn(st, "") == limit.Permits && (others == limit.Permits) == taken
			}, func() string { return limittest.StateText(l.Peek(t.Context())) })
		}
	}
	posts[0].Server.Kill()
	posts[0].Proxy.Cut()
	everywhere("the others have all of it", true)
	posts[0].Server.Restart()
	everywhere("it has a part again", false)
	ops, err := calls.Stop()
	if !limittest.Harmless(err) { // the machine may be busy
		t.Error(err)
	}
	limittest.KeepsTo(t, limit, ops)
}

// Where no majority of the nodes can be reached, the outage policy answers after at most five
// seconds, although a shard is there; and no longer once there is a majority again.
func TestWithoutAMajorityNobodyIsServed(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 3)
	l := fl.Limiter(t,
		shardlimit.Limit{Permits: 3000, Per: time.Second, Shards: 3},
		limittest.PatientFor(250*time.Millisecond), limittest.Wary)
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
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "it is served", func() bool { return serves(t, l) })
}

// What is wholly on a lost node is served elsewhere as soon as nobody relies on the node, and what
// was granted or reserved there has left the window: two windows.
func TestATakeoverWaitsForTwoWindows(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for name, family := range map[string]bool{"a limit": false, "a key": true} {
		limittest.RunInBubble(t, name, 3, func(t *testing.T, fl limittest.Fleet) {
			var l *shardlimit.Limiter
			if client := fl.Client(t, limittest.TakesOver); family {
				l = limittest.Family(t, client, "f", limit).Limiter("user")
			} else {
				l = limittest.Limiter(t, client, "l", limit)
			}
			limittest.Settled(t, l)
			limittest.DrainSlowly(t, l)
			fl.Bubble[fl.Index(limittest.Peek(t, l).Shards[0].Node)].Down.Store(true)
			lost := time.Now()
			limittest.AwaitWithin(t, 2*limit.Per+17*time.Second, "it is served", func() bool { return serves(t, l) })
			if served := time.Since(lost); served < 2*limit.Per {
				t.Errorf("it is served after %v, want %v", served, 2*limit.Per)
			}
		})
	}
}

// A node is lost while no process is there. What it has of a limit is served by the others all the
// same: also where no process lists it any more, without having been drained, and where every
// process lives for three seconds, so that none has missed it for long.
func TestALossThatNobodySawIsTakenOver(t *testing.T) {
	for name, c := range map[string]struct{ listed, processes int }{
		"it is not listed": {3, 1}, "short-lived processes": {4, 20},
	} {
		limittest.RunInBubble(t, name, 4, func(t *testing.T, fl limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
			first := fl.Client(t, limittest.TakesOver)
			limittest.Settled(t, limittest.Limiter(t, first, "l", limit))
			first.Close()
			fl.Bubble[3].Down.Store(true)
			var last shardlimit.State
			for range c.processes {
				client := fl.With(fl.Nodes[:c.listed]...).Client(t, limittest.TakesOver)
				l := limittest.Limiter(t, client, "l", limit)
				use(t, time.Minute/time.Duration(c.processes), l)
				last, _ = l.Peek(t.Context())
				client.Close()
			}
			if sum := limittest.SumOn(last, "n3"); sum != limit.Permits {
				t.Errorf("after a minute the others have %d of %d", sum, limit.Permits)
			}
		})
	}
}

// Who declares a limit decides whether its lost nodes are taken over, if there are three nodes. It
// stays so, whoever joins, whatever changes the limit, until it is deleted.
func TestWhoDeclaresDecidesOnTakeover(t *testing.T) {
	limittest.RunInBubble(t, "two nodes", 2, func(t *testing.T, fl limittest.Fleet) {
		if limittest.Peek(t, fl.Limiter(t, shardlimit.PerSecond(10), limittest.TakesOver)).Takeover {
			t.Error("the limit claims a takeover")
		}
	})
	for name, takeover := range map[string]bool{"with": true, "without": false} {
		limittest.RunInBubble(t, name, 3, func(t *testing.T, fl limittest.Fleet) {
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
			limittest.Must(t, other.SetLimit(t.Context(), limit))
			holds(other, "changed")
			limit.Revision = 1
			holds(limittest.Limiter(t, second, "l", limit), "declared at a higher revision")
			limittest.Must(t, other.Rebalance(t.Context()))
			holds(other, "rebalanced")
			limit.Shards = 0
			k := limittest.Family(t, first, "f", limit).Limiter("ann")
			holds(k, "a key")
			holds(limittest.Family(t, second, "f", limit).Limiter("ann"), "a key of a family that was joined")
			limittest.Must(t, other.Delete(t.Context()))
			takeover, limit.Shards = !takeover, 3
			holds(limittest.Limiter(t, second, "l", limit), "deleted and declared anew")
		})
	}
}

// A process without a NodeTimeout obeys the membership of a limit that was declared with one: while
// it reaches no majority it grants nothing of a node that others have put out, and it puts nodes
// out.
func TestWhoHasNoNodeTimeoutObeysATakeover(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3}
		declares := fl.Client(t, limittest.Wary)
		limittest.Settled(t, limittest.Limiter(t, declares, "l", limit))
		l := fl.Limiter(t, limit)
		limittest.Settled(t, l)
		declares.Close()
		fl.Bubble[0].Down.Store(true)
		for range 60 { // DefaultNodeTimeout, and what was granted has left the window
			_, _ = l.AllowUpTo(t.Context(), 30)
			time.Sleep(500 * time.Millisecond)
		}
		if st := limittest.Peek(t, l); limittest.SumOn(st, fl.Nodes[0].Name) != limit.Permits || len(st.Lost) != 1 {
			t.Errorf("what the lost node had was not taken over: %+v", st)
		}
	})
}

// A node is lost, and the clock of another that keeps the membership is set back ten minutes. What
// the lost one had is served elsewhere in the usual time.
func TestATakeoverWhileAClockIsSetBack(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		limittest.RunInBubble(t, fmt.Sprint("the lost one: ", keeps), 4, func(t *testing.T, fl limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
			c := fl.Client(t, limittest.TakesOver)
			l := limittest.Limiter(t, c, "l", limit)
			limittest.Settled(t, l)
			lost, back := -1, -1
			for i, n := range fl.Nodes {
				switch place := slices.Contains(limittest.RecordNodes(c), n.Name); {
				case lost < 0 && place == keeps:
					lost = i
				case back < 0 && place:
					back = i
				}
			}
			fl.Bubble[lost].Down.Store(true)
			use(t, 8*time.Second, l)
			fl.Bubble[back].Redis.Step(-10 * time.Minute)
			limittest.AwaitWithin(t, 12*time.Second, "it is taken over", func() bool {
				_, _ = l.Allow(t.Context())
				st, err := l.Peek(t.Context())
				return err == nil && st.Settled && limittest.SumOn(st, fl.Nodes[lost].Name) == limit.Permits
			})
		})
	}
}

// The clocks of nodes differ by two minutes, all the time. What was reserved on the node that is
// lost counts all the same until it has left the window.
func TestSkewForgetsNoReservation(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute} {
		limittest.RunInBubble(t, skew.String(), 4, func(t *testing.T, fl limittest.Fleet) {
			odd := 2
			for i, n := range fl.Bubble {
				if i != odd {
					n.Redis.Step(skew)
				}
			}
			long := shardlimit.Limit{Permits: 400, Per: 30 * time.Second, Shards: 4}
			l := fl.Limiter(t, long, limittest.Wary)
			limittest.Settled(t, l)
			limittest.DrainSlowly(t, l)
			r, err := l.Reserve(t.Context(), long.Permits)
			limittest.Must(t, err)
			short := long
			short.Per = time.Second
			limittest.Must(t, l.SetLimit(t.Context(), short))
			limittest.Settled(t, l)
			fl.Bubble[odd].Down.Store(true)
			for r.Delay() > 300*time.Millisecond {
				_, _ = l.AllowUpTo(t.Context(), long.Permits)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(r.Delay()) // from now on its permits are used
			got := int64(0)
			for end := time.Now().Add(900 * time.Millisecond); time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
				if d, err := l.AllowUpTo(t.Context(), long.Permits); err == nil {
					got += d.Granted
				}
			}
			if got > 0 {
				t.Errorf("%d permits beside a reservation for all of them", got)
			}
		})
	}
}

// Keys move off a node that drains, and the clock of another node that keeps the record steps
// ahead. Keys that never were on that node have no more than their limit.
func TestStepElsewhereFreesNoKey(t *testing.T) {
	limittest.InBubble(t, 4, func(t *testing.T, fl limittest.Fleet) {
		client := fl.Client(t)
		users := limittest.Family(t, client, "users", shardlimit.Limit{Permits: 10, Per: 30 * time.Second})
		place := fl.Index(limittest.RecordNodes(client)[0])
		name := func(i int) string { return fmt.Sprint("user ", i) }
		time.Sleep(5 * time.Minute) // their memory is whole
		before := map[int]string{}
		for i := range 40 {
			if got := limittest.Exhaust(t, users.Limiter(name(i)), 10); got != 10 {
				t.Fatalf("%d permits", got)
			}
			before[i] = limittest.Peek(t, users.Limiter(name(i))).Shards[0].Node
		}
		gone := (place + 1) % 4
		client.Close()
		client = fl.With(limittest.Drained(fl.Nodes, func(i int) bool { return i == gone })...).Client(t)
		users = limittest.Family(t, client, "users", users.Limit())
		limittest.Must(t, users.Rebalance(t.Context()))
		use(t, 5*time.Second, users.Limiter("other"))
		fl.Bubble[place].Redis.Step(3 * time.Minute)
		use(t, 10*time.Second, users.Limiter("other"))
		users = fl.Family(t, users.Limit()) // of a process that remembers no denial
		for i := range 40 {
			if was := before[i]; was == fl.Nodes[gone].Name {
				got := limittest.Exhaust(t, users.Limiter(name(i)), 10)
				if now := limittest.Peek(t, users.Limiter(name(i))).Shards[0].Node; got > 0 &&
					now != fl.Nodes[place].Name {
					t.Errorf("%s, from %s to %s, had %d of 10 permits in 15 s", name(i), was, now, 10+got)
				}
			}
		}
	})
}
