package faults

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The part that a process has of a limit whose Burst is large can be enforced, too: these are
// divided among more processes than they have permits for, or nearly so.
func TestAPartOfALargeBurstServesThroughAnOutage(t *testing.T) {
	for _, c := range []struct {
		permits, burst, processes int64
		per                       time.Duration
	}{{3, 26, 2, 31 * 24 * time.Hour}, {1_000, 9_000, 600, 30 * 24 * time.Hour}} {
		for _, a := range limittest.Buckets {
			t.Run(fmt.Sprint(a, c.permits), func(t *testing.T) {
				limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
					l := limittest.Limiter(t,
						f.Client(t, limittest.OnOutage(shardlimit.FailLocal), expecting(c.processes)), "l",
						shardlimit.Limit{Permits: c.permits, Per: c.per, Burst: c.burst, Algorithm: a})
					limittest.MustGet(t, l, 1) // which is noted
				})
				synctest.Test(t, func(t *testing.T) {
					l := limittest.Limiter(t,
						limittest.Away().Client(t, limittest.OnOutage(shardlimit.FailLocal), expecting(c.processes)),
						"l", shardlimit.Limit{Permits: c.permits, Per: c.per, Burst: c.burst, Algorithm: a})
					got := int64(0)
					for range c.burst {
						d, err := l.Allow(t.Context())
						if err != nil || !d.Degraded {
							t.Fatalf("%+v, %v", d, err)
						}
						got += d.Granted
					}
					if got < 1 || got > max(1, c.burst/c.processes) {
						t.Errorf("%d permits of a burst of %d for %d processes", got, c.burst, c.processes)
					}
				})
			})
		}
	}
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
