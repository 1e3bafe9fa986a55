package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

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
