package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The clocks of nodes differ by two minutes, all the time. What was reserved on the node that is
// lost counts all the same until it has left the window.
func TestSkewForgetsNoReservation(t *testing.T) {
	for _, skew := range []time.Duration{0, 2 * time.Minute, 10 * time.Minute, -2 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 4)
				fl.Punctual = true
				odd := 2
				for i, n := range nodes {
					if i != odd {
						n.Redis.Step(skew)
					}
				}
				long := shardlimit.Limit{Permits: 400, Per: 30 * time.Second, Shards: 4}
				l := limittest.Limiter(t, fl.Client(t, limittest.Wary), "l", long)
				limittest.Settled(t, l)
				limittest.DrainSlowly(t, l)
				r, err := l.Reserve(t.Context(), long.Permits)
				if err != nil {
					t.Fatal(err)
				}
				short := long
				short.Per = time.Second
				if err := l.SetLimit(t.Context(), short); err != nil {
					t.Fatal(err)
				}
				limittest.Settled(t, l)
				nodes[odd].Down.Store(true)
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
		})
	}
}
