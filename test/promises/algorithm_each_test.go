package promises

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// bucketOf is a token bucket of so many permits a minute.
func bucketOf(permits, burst int64, shards int) shardlimit.Limit {
	return shardlimit.Limit{Permits: permits, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: burst,
		Shards: shards}
}

// TestWhatIsUnusedSurvivesAChange: a change of the limit takes nothing out of a token bucket that
// the new burst has room for, and adds nothing. One in place of another algorithm begins empty.
func TestWhatIsUnusedSurvivesAChange(t *testing.T) {
	log := shardlimit.Limit{Permits: 1000, Per: time.Minute, Shards: 1}
	for name, c := range map[string]struct {
		from, to   shardlimit.Limit
		used, want int64
	}{
		"raised, never used":                  {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 0, 2000},
		"raised, never used, on four":         {bucketOf(1000, 0, 4), bucketOf(2000, 0, 4), 0, 2000},
		"lowered, never used":                 {bucketOf(1000, 0, 1), bucketOf(500, 0, 1), 0, 500},
		"one used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1, 999},
		"one used, twice the rate":            {bucketOf(1000, 1000, 1), bucketOf(2000, 1000, 1), 1, 999},
		"one used, ten times the rate":        {bucketOf(1000, 1000, 1), bucketOf(10000, 1000, 1), 1, 999},
		"one used, a tenth of the rate":       {bucketOf(1000, 1000, 1), bucketOf(100, 1000, 1), 1, 999},
		"one used, the burst lowered":         {bucketOf(1000, 1000, 1), bucketOf(1000, 600, 1), 1, 600},
		"half of them used, on four, lowered": {bucketOf(1000, 0, 4), bucketOf(500, 0, 4), 500, 250},
		"all used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1000, 0},
		"from a log, never used":              {log, bucketOf(1000, 0, 1), 0, 0},
		"from a log, some used":               {log, bucketOf(1000, 0, 1), 300, 0},
	} {
		limittest.RunInBubble(t, name, 4, func(t *testing.T, f limittest.Fleet) {
			l := f.Limiter(t, c.from)
			if c.used > 0 {
				limittest.MustGet(t, l, c.used)
			}
			limittest.Must(t, l.SetLimit(t.Context(), c.to))
			if st := limittest.Peek(t, l); st.Remaining != c.want {
				t.Errorf("%d are there, want %d: %+v", st.Remaining, c.want, st)
			}
		})
	}
}

// The windows of a FixedWindow begin at multiples of its length on the clock, on every node at the
// same time.
func TestFixedWindowsEndAtTheClocksEdgeOnEveryNode(t *testing.T) {
	const window = 31 * 24 * time.Hour
	f, set := limittest.Frozen(t, 4)
	now := time.Unix(1_800_000_000, 0)
	set(now)
	begun := time.Now()
	l := f.Limiter(t, shardlimit.Limit{Permits: 80, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16})
	limittest.MustGet(t, l, 80)
	d := limittest.Denied(t, l, 1)
	edge := now.Add(window - time.Duration(now.UnixNano()%int64(window)))
	// The first of the shards that has permits again, and the last that is free again.
	for what, in := range map[string]time.Duration{"RetryAfter": d.RetryAfter, "ResetAfter": d.ResetAfter} {
		if early := edge.Sub(now.Add(in)); early < 0 || early > time.Since(begun) {
			t.Errorf("%s tells of %s before the edge", what, early)
		}
	}
}

// TestARaiseIsFeltByWhoeverComesNext: one permit a minute is taken, then the limit is raised, or
// its window becomes shorter. Who waits then has the next permits at the new rate, whatever the
// algorithm.
func TestARaiseIsFeltByWhoeverComesNext(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for name, to := range map[string]shardlimit.Limit{
			"raised":  {Permits: 100, Per: time.Minute, Algorithm: a, Shards: 1},
			"shorter": {Permits: 1, Per: 600 * time.Millisecond, Algorithm: a, Shards: 1},
		} {
			limittest.RunInBubble(t, fmt.Sprint(a, " ", name), 1, func(t *testing.T, f limittest.Fleet) {
				l := f.Limiter(t, shardlimit.Limit{Permits: 1, Per: time.Minute, Algorithm: a, Shards: 1})
				limittest.MustGet(t, l, 1)
				time.Sleep(time.Second) // of the bubble's time
				limittest.Must(t, l.SetLimit(t.Context(), to))
				begun := time.Now()
				for range 3 {
					limittest.Must(t, l.Wait(t.Context()))
				}
				most := 1801 * time.Millisecond  // nobody else waits: each comes when it is due
				if a == shardlimit.LeakyBucket { // the first is due
					most = 1201 * time.Millisecond
				}
				if took := time.Since(begun); took > most {
					t.Errorf("three permits took %s", took)
				}
			})
		}
	}
}
