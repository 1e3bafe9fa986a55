package waiting

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Calls that wait for each other in a process wait, or it says that it has too many, which the
// outage policy answers. Nodes that answer are not taken for away.
func TestAQueueInTheProcessIsNoOutage(t *testing.T) {
	const million = 1_000_000
	for _, c := range []struct {
		name    string
		rtt     time.Duration
		shards  int
		callers int
		n       int64
		tenants bool
		allowed int // at least
	}{
		{"a thousand tenants", 5 * time.Millisecond, 1, 1000, 1, true, 1000},
		{"four thousand tenants on a slow net", 20 * time.Millisecond, 1, 4000, 1, true, 300},
		{"a thousand tenants, a net at its limit", 40 * time.Millisecond, 1, 1000, 1, true, 100},
		{"large calls", time.Millisecond, 8, 200, 150_000, false, 6},
		{"large calls, slower", 5 * time.Millisecond, 8, 200, 150_000, false, 6},
		{"large calls on a slow net", 20 * time.Millisecond, 8, 200, 150_000, false, 2},
		{"large calls, no distance", 0, 8, 200, 150_000, false, 6},
	} {
		for policy, name := range map[shardlimit.OutagePolicy]string{shardlimit.FailClosed: "closed",
			shardlimit.FailOpen: "open"} {
			t.Run(fmt.Sprint(c.name, ", fails ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, _ := limittest.Bubbled(t, 2).Distant(t, c.rtt)
					l := limittest.Limiter(t, f.Client(t, limittest.OnOutage(policy)), "l",
						shardlimit.Limit{Permits: million, Per: time.Minute, Shards: c.shards})
					shed := func(d shardlimit.Decision, err error) (shardlimit.Decision, error) {
						if c.tenants && (errors.Is(err, shardlimit.ErrOverloaded) || d.Degraded) {
							return shardlimit.Decision{RetryAfter: time.Second}, nil
						}
						return d, err
					}
					s := limittest.Together(c.callers, func(i int) (shardlimit.Decision, error) {
						if c.tenants {
							return shed(l.As(fmt.Sprint("tenant", i), 1).AllowN(t.Context(), c.n))
						}
						return l.AllowN(t.Context(), c.n)
					})
					if d, err := l.AllowUpTo(t.Context(), 1); err != nil || d.Degraded {
						t.Errorf("the next call: %+v, %v", d, err)
					}
					if s.Failed+s.Degraded > 0 || s.Allowed < c.allowed || s.Permits > million {
						t.Errorf("%d allowed, %d denied, %d degraded, %d failed: %v", s.Allowed, s.Denied, s.Degraded,
							s.Failed, s.Err)
					}
					if s.Denied > 0 && s.Least < time.Millisecond {
						t.Errorf("one is denied and told to come back after %s", s.Least)
					}
					if s.Slowest > 110*time.Millisecond {
						t.Errorf("a call took %s", s.Slowest)
					}
				})
			})
		}
	}
}

// Reservations that wait for their turn to collect are refused in the end. They are not given away.
func TestAQueueOfReservationsIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 2).Distant(t, 20*time.Millisecond)
		l := limittest.Limiter(t, f.Client(t, limittest.OnOutage(shardlimit.FailOpen)), "l",
			shardlimit.Limit{Permits: 1000, Per: time.Minute, Shards: 8})
		s := limittest.Together(50, func(int) (shardlimit.Decision, error) {
			r, err := l.Reserve(t.Context(), 300)
			if errors.Is(err, shardlimit.ErrTooFarAhead) || errors.Is(err, shardlimit.ErrWaitTooLong) {
				return shardlimit.Decision{RetryAfter: time.Second}, nil
			}
			if err != nil {
				return shardlimit.Decision{}, err
			}
			return shardlimit.Decision{Allowed: true, Degraded: r.Degraded()}, nil
		})
		if s.Failed+s.Degraded > 0 || s.Allowed == 0 {
			t.Errorf("%d reserved, %d refused, %d degraded, %d failed: %v", s.Allowed, s.Denied, s.Degraded, s.Failed,
				s.Err)
		}
	})
}
