package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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
				l := f.Limiter(t, limit, limittest.OnOutage(shardlimit.FailLocal), expecting(expected))
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
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			var l *shardlimit.Limiter
			for range 4 {
				l = f.Limiter(t,
					shardlimit.PerMinute(100), limittest.OnOutage(shardlimit.FailLocal), expecting(expected))
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

// Whatever the limit and the number of processes, each can enforce its part, which is no more than
// that of the limit, or one permit.
func TestEveryPartOfALimitCanBeEnforced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few, many := rapid.Int64Range(1, 2_000), rapid.Int64Range(1, shardlimit.MaxPermits)
		short, long := rapid.Int64Range(1_000, 1_000_000), rapid.Int64Range(1, 31*24)
		limit := shardlimit.Limit{
			Permits:   rapid.OneOf(few, many).Draw(t, "permits"),
			Per:       time.Duration(long.Draw(t, "hours")) * time.Hour,
			Algorithm: rapid.SampledFrom(limittest.Algorithms).Draw(t, "algorithm"),
		}
		if rapid.Bool().Draw(t, "a short window") {
			limit.Per = time.Duration(short.Draw(t, "microseconds")) * time.Microsecond
		}
		if limittest.Bursty(limit.Algorithm) {
			most := min(9.0*float64(shardlimit.MaxWindow)/float64(limit.Per)*float64(limit.Permits),
				shardlimit.MaxPermits)
			limit.Burst = int64(most * (1 - rapid.Float64Range(0, 1).Draw(t, "less burst")))
		}
		processes := rapid.OneOf(few, many).Draw(t, "processes")
		part, err := limittest.PartOf(limit, processes)
		if err != nil {
			t.Fatalf("%v, Burst %d, for %d: %v", limit, limit.Burst, processes, err)
		}
		if part.Permits > max(1, limit.Permits/processes) || part.Burst > max(1, limit.Burst/processes) ||
			processes == 1 && part != limit {
			t.Errorf("%v, Burst %d, for %d: %v, Burst %d", limit, limit.Burst, processes, part, part.Burst)
		}
	})
}

// Ten processes were given one Participant name. Where each enforces a part of the limit, the parts
// add up to no more than the limit.
func TestFailLocalCountsProcesses(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, fl limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1}
		var limiters []*shardlimit.Limiter
		for range 10 {
			limiters = append(limiters, limittest.Limiter(t, fl.Client(t, limittest.OnOutage(shardlimit.FailLocal),
				func(c *shardlimit.Config) { c.Participant = "web" }), "l", limit))
		}
		for range 40 {
			for _, l := range limiters {
				_, _ = l.Allow(t.Context())
			}
			time.Sleep(time.Second)
		}
		fl.Bubble[0].Down.Store(true)
		got := int64(0)
		for _, l := range limiters {
			d, _ := l.AllowUpTo(t.Context(), limit.Permits)
			got += d.Granted
		}
		if got > limit.Permits || got < limit.Permits/2 {
			t.Errorf("%d of %d permits", got, limit.Permits)
		}
	})
}
