package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A node is lost, and the clock of another that keeps the membership is set back ten minutes. What
// the lost one had is served elsewhere in the usual time, by a process that saw it go out and by
// one that came later.
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
			begun := time.Now()
			for ; time.Since(begun) < 8*time.Second; time.Sleep(100 * time.Millisecond) {
				_, _ = l.Allow(t.Context())
			}
			fl.Bubble[back].Redis.Step(-10 * time.Minute)
			whole := func(l *shardlimit.Limiter) bool {
				_, _ = l.Allow(t.Context())
				st, err := l.Peek(t.Context())
				return err == nil && st.Settled && limittest.SumOn(st, fl.Nodes[lost].Name) == limit.Permits
			}
			for !whole(l) {
				if time.Since(begun) > 2*time.Minute {
					t.Fatal("not taken over after two minutes")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("taken over after %v", took)
			}
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
			if err != nil {
				t.Fatal(err)
			}
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
		for range 5 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
		fl.Bubble[place].Redis.Step(3 * time.Minute)
		for range 10 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
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
