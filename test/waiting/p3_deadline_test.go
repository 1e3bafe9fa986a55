package waiting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// atMost is how long a call may take by its call timeout: the watchdog's grace is on top of it.
const atMost = shardlimit.DefaultCallTimeout + 10*time.Millisecond

// everyCall is every kind of call on a limit of 1,000 permits, but for changes of it.
func everyCall(l *shardlimit.Limiter, set func(n int64) *shardlimit.Set, refund shardlimit.Decision,
	r *shardlimit.Reservation) map[string]func(context.Context) error {
	calls := limittest.Calls(l, 700, refund)
	for _, name := range []string{"SetLimit", "Reset", "Rebalance", "Delete"} {
		delete(calls, name)
	}
	calls["AllowN of few"] = func(ctx context.Context) error { return limittest.Err(l.AllowN(ctx, 10)) }
	calls["Cancel"] = r.Cancel
	calls["Set.Allow"] = func(ctx context.Context) error { return limittest.Err(set(1).Allow(ctx)) }
	calls["Set of 700"] = func(ctx context.Context) error { return limittest.Err(set(700).Allow(ctx)) }
	calls["Set.Wait"] = func(ctx context.Context) error { return set(1).Wait(ctx) }
	return calls
}

// Whatever nodes do, a call returns within the call timeout, or by its context if that ends sooner.
// Both are the bubble's time, and the call timeout is that of production.
func TestEveryCallHasOneDeadline(t *testing.T) {
	for i, shards := range []int{1, 2, 16} {
		if !extent.Plays(i + 3) {
			continue
		}
		for name := range everyCall(nil, nil, shardlimit.Decision{}, nil) {
			for stalled := 1; stalled <= 2; stalled++ {
				for _, patience := range []time.Duration{0, 30 * time.Millisecond} {
					if patience == 0 && strings.Contains(name, "Wait") {
						continue // it has no end but that of its context
					}
					what := fmt.Sprintf("%s on %d shards, %d of 2 nodes stall, %s", name, shards, stalled, patience)
					t.Run(what, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { returnsInTime(t, name, shards, stalled, patience) })
					})
				}
			}
		}
	}
}

func returnsInTime(t *testing.T, name string, shards, stalled int, patience time.Duration) {
	f, net := limittest.Bubbled(t, 2).Distant(t, time.Millisecond)
	c := f.Client(t)
	l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: shards})
	d := limittest.MustGet(t, l, 500) // half of each is used then, so all are likely to refuse 700
	all := []*shardlimit.Limiter{l}
	for i := range 8 {
		other := limittest.Limiter(t, c, fmt.Sprint("other", i),
			shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
		limittest.MustGet(t, other, 500)
		all = append(all, other)
	}
	r, err := l.Reserve(t.Context(), 700)
	limittest.Must(t, err)
	for _, n := range net[:stalled] {
		n.Stalled.Store(true)
	}
	ctx, limit := t.Context(), atMost
	if patience > 0 {
		ctx = limittest.Shortly(t, patience)
		if name != "Settle" && name != "Cancel" { // which go on after the end of a context
			limit = patience + time.Millisecond
		}
	}
	set := func(n int64) *shardlimit.Set { return limittest.Set(n, all...) }
	began := time.Now()
	err = everyCall(l, set, d, r)[name](ctx)
	if took := time.Since(began); took > limit {
		t.Errorf("returned after %s: %v", took, err)
	}
}

// A refund that was not sent because a breaker is open can be tried again, and gives everything
// back.
func TestARefundSkipsNodesThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 2).Distant(t, time.Millisecond)
		l := f.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 16})
		d := limittest.MustGet(t, l, 1000)
		net[0].Stalled.Store(true)
		for range 3 { // until the breaker is open
			_, _ = l.Peek(t.Context())
		}
		began, calls := time.Now(), net[0].Calls.Load()
		var shard *shardlimit.ShardError
		if err := l.Settle(t.Context(), d, 0); !errors.As(err, &shard) {
			t.Errorf("a refund of which half cannot be sent: %v", err)
		}
		if took := time.Since(began); took > 5*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if sent := net[0].Calls.Load() - calls; sent > 1 { // a probe
			t.Errorf("%d calls to a node whose breaker is open", sent)
		}
		if st, err := l.Peek(t.Context()); err != nil || st.Remaining != 500 {
			t.Errorf("of the half that can be seen %d permits are free: %v", st.Remaining, err)
		}
		net[0].Stalled.Store(false)
		limittest.AwaitThat(t, "the breaker closes", func() bool {
			time.Sleep(100 * time.Millisecond)
			return l.Settle(t.Context(), d, 0) == nil
		})
		limittest.Uses(t, l, 0)
	})
}

// A Set has one deadline, whatever its limits are: also after a rest, when each has to find out
// whether what it knows still holds, and all nodes stall.
func TestASetHasOneDeadlineAfterARest(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for what, make := range map[string]func(*testing.T, *shardlimit.Client, int) *shardlimit.Limiter{
		"limits": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Limiter(t, c, fmt.Sprint("l", i), limit)
		},
		"keys of a family": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Family(t, c, "f", limit).Limiter(fmt.Sprint("user ", i))
		},
		"keys of families": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Family(t, c, fmt.Sprint("f", i), limit).Limiter("user")
		},
		"deleted limits": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			l := limittest.Limiter(t, c, fmt.Sprint("l", i), limit)
			limittest.Must(t, limittest.Limiter(t, c, l.Name(), limit).Delete(t.Context()))
			return l
		},
	} {
		for _, rest := range []time.Duration{0, 6 * time.Second, 70 * time.Second, time.Hour} {
			limittest.RunInBubble(t, fmt.Sprint(what, " after ", rest), 3, func(t *testing.T, f limittest.Fleet) {
				f, net := f.Distant(t, time.Millisecond)
				c := f.Client(t)
				var all []*shardlimit.Limiter
				for i := range 8 {
					l := make(t, c, i)
					_, _ = l.Allow(t.Context())
					all = append(all, l)
				}
				set := limittest.Set(1, all...)
				_, _ = set.Allow(t.Context())
				time.Sleep(rest)
				for _, n := range net {
					n.Stalled.Store(true)
				}
				for range 3 {
					began := time.Now()
					_, err := set.Allow(t.Context())
					if took := time.Since(began); took > atMost {
						t.Errorf("returned after %v: %v", took, err)
					}
				}
				for _, n := range net {
					n.Stalled.Store(false)
				}
				time.Sleep(3 * time.Second)
			})
		}
	}
}
