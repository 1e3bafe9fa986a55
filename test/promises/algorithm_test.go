package promises

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Every algorithm is tried with 1, 4 and 16 shards, and at every place.
func TestEveryAlgorithmGivesWhatThereIsAndNoMore(t *testing.T) {
	t.Parallel()
	for at, name := range slices.Sorted(maps.Keys(limittest.Places)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := limittest.Places[name](t).Client(t)
			for i, a := range limittest.Algorithms {
				limit := shardlimit.Limit{Permits: 80, Per: time.Hour, Algorithm: a, Shards: []int{1, 4, 16}[(at+i)%3]}
				t.Run(a.String(), func(t *testing.T) { givesWhatThereIs(t, c, limit) })
			}
		})
	}
}

func givesWhatThereIs(t *testing.T, c *shardlimit.Client, limit shardlimit.Limit) {
	most := limit.Permits
	if limittest.Bursty(limit.Algorithm) {
		limit.Burst, most = 48, 48
	}
	l := limittest.Limiter(t, c, t.Name(), limit)
	if l.Limit() != limit {
		t.Fatalf("%+v is in force", l.Limit())
	}
	limittest.ErrorIs(t, limittest.Err(l.AllowN(t.Context(), most+1)), shardlimit.ErrExceedsLimit)
	st := limittest.SharesSumTo(t, l, limit.Permits)
	if st.Remaining != most || len(st.Shards) != limit.Shards {
		t.Errorf("unused: %+v", st)
	}
	limittest.MustGet(t, l, most/2)
	last, err := l.AllowUpTo(t.Context(), most)
	if err != nil || last.Granted != most-most/2 {
		t.Errorf("the rest: %+v, %v", last, err)
	}
	if d := limittest.Denied(t, l, 1); d.Remaining != 0 || d.RetryAfter <= 0 || d.RetryAfter > limit.Per {
		t.Errorf("one more: %+v", d)
	}
	limittest.Must(t, l.Settle(t.Context(), last, 0))
	if again, err := l.AllowUpTo(t.Context(), most); err != nil || again.Granted != last.Granted {
		t.Errorf("%d were given back, %d were granted then: %v", last.Granted, again.Granted, err)
	}
	limittest.Must(t, l.Reset(t.Context()))
	limittest.MustGet(t, l, most)
}

// The turns of a leaky bucket on one shard are exactly one interval apart, whoever gets them and
// however many at once.
func TestLeakyBucketGivesTurns(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		const interval = 20 * time.Second
		l := f.Limiter(t, shardlimit.Limit{Permits: 3, Per: 3 * interval,
			Algorithm: shardlimit.LeakyBucket, Burst: 50, Shards: 1})
		turn := -interval // the first may act at once
		for _, n := range []int64{1, 1, 5, 1, 10} {
			turn += time.Duration(n) * interval
			if d := limittest.MustGet(t, l, n); d.Delay != turn {
				t.Errorf("%d: turn after %s, want %s", n, d.Delay, turn)
			}
		}
	})
}

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
		"one used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1, 999},
		"one used, ten times the rate":        {bucketOf(1000, 1000, 1), bucketOf(10000, 1000, 1), 1, 999},
		"one used, a tenth of the rate":       {bucketOf(1000, 1000, 1), bucketOf(100, 1000, 1), 1, 999},
		"one used, the burst lowered":         {bucketOf(1000, 1000, 1), bucketOf(1000, 600, 1), 1, 600},
		"half of them used, on four, lowered": {bucketOf(1000, 0, 4), bucketOf(500, 0, 4), 500, 250},
		"all used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1000, 0},
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
