package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestProcessesStartedDuringAnOutageShare: ten processes that never heard of each other
// admit no more than the limit in a window, as ten are expected. A process that has heard of fewer
// goes by those that are expected, too, and one that has heard of more by these.
func TestProcessesStartedDuringAnOutageShare(t *testing.T) {
	const permits, window = 100, time.Minute
	limit := shardlimit.Limit{Permits: permits, Per: window, Shards: 1}
	for expected, most := range map[int64]int64{0: 10 * permits, 10: permits, 30: 30, 1000: 10} {
		synctest.Test(t, func(t *testing.T) {
			f, granted := limittest.Away(), int64(0)
			for range 10 {
				l := limittest.Limiter(t, f.Client(t, limittest.OnOutage(shardlimit.FailLocal), expecting(expected)),
					"l", limit)
				for range 3 * permits {
					d, err := l.Allow(t.Context())
					if err != nil || !d.Degraded || d.Allowed == (d.RetryAfter > 0) || d.RetryAfter > time.Second {
						t.Fatalf("%+v, %v", d, err)
					}
					granted += d.Granted
				}
				d, err := shardlimit.All(l.N(1)).Allow(t.Context())
				if err != nil || d.Allowed || d.RetryAfter > time.Second {
					t.Fatalf("a Set: %+v, %v", d, err)
				}
			}
			if granted != most {
				t.Errorf("%d expected: %d permits of %d, want %d", expected, granted, permits, most)
			}
		})
	}
}

// TestTheGreaterNumberOfProcessesCounts: those that are expected, or those that were heard of.
func TestTheGreaterNumberOfProcessesCounts(t *testing.T) {
	for expected, most := range map[int64]int64{0: 25, 2: 25, 10: 10} {
		synctest.Test(t, func(t *testing.T) {
			f := limittest.Bubbled(t, 1)
			var l *shardlimit.Limiter
			for range 4 {
				l = limittest.Limiter(t, f.Client(t, limittest.OnOutage(shardlimit.FailLocal), expecting(expected)),
					"l", shardlimit.PerMinute(100))
				limittest.Settled(t, l)
			}
			if got := limittest.LocalPermits(l); got != most {
				t.Errorf("%d expected, 4 heard of: a part of %d, want %d", expected, got, most)
			}
		})
	}
}

func expecting(n int64) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.Participants = n }
}
