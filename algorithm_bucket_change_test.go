package shardlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// bucketOf is a token bucket of so many permits a minute.
func bucketOf(permits, burst int64, shards int) shardlimit.Limit {
	return shardlimit.Limit{Permits: permits, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: burst,
		Shards: shards}
}

// TestWhatIsUnusedSurvivesAChange: a change of the limit takes nothing out of a token bucket that
// the new burst has room for.
func TestWhatIsUnusedSurvivesAChange(t *testing.T) {
	log := func(permits int64, shards int) shardlimit.Limit {
		return shardlimit.Limit{Permits: permits, Per: time.Minute, Shards: shards}
	}
	counter, leaky := log(1000, 1), log(1000, 1)
	counter.Algorithm, leaky.Algorithm = shardlimit.SlidingCounter, shardlimit.LeakyBucket
	for name, c := range map[string]struct {
		from, to   shardlimit.Limit
		used, want int64
	}{
		"raised, never used":                {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 0, 2000},
		"raised, never used, on four":       {bucketOf(1000, 0, 4), bucketOf(2000, 0, 4), 0, 2000},
		"lowered, never used":               {bucketOf(1000, 0, 1), bucketOf(500, 0, 1), 0, 500},
		"moved, never used":                 {bucketOf(1000, 0, 4), bucketOf(1000, 0, 7), 0, 1000},
		"together, never used":              {bucketOf(1000, 0, 4), bucketOf(1000, 0, 1), 0, 1000},
		"moved and raised, never used":      {bucketOf(1000, 0, 4), bucketOf(4000, 0, 3), 0, 4000},
		"one used, raised":                  {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1, 999},
		"one used, twice the rate":          {bucketOf(1000, 1000, 1), bucketOf(2000, 1000, 1), 1, 999},
		"one used, ten times the rate":      {bucketOf(1000, 1000, 1), bucketOf(10000, 1000, 1), 1, 999},
		"one used, a tenth of the rate":     {bucketOf(1000, 1000, 1), bucketOf(100, 1000, 1), 1, 999},
		"one used, the burst lowered":       {bucketOf(1000, 1000, 1), bucketOf(1000, 600, 1), 1, 600},
		"all used, raised":                  {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1000, 0},
		"half used, moved":                  {bucketOf(1000, 0, 4), bucketOf(1000, 0, 16), 500, 500},
		"half used, together":               {bucketOf(1000, 0, 4), bucketOf(1000, 0, 1), 500, 500},
		"half used, twice the rate, moved":  {bucketOf(1000, 1000, 4), bucketOf(2000, 1000, 3), 500, 500},
		"from a log, never used":            {log(1000, 1), bucketOf(1000, 0, 1), 0, 1000},
		"from a log, never used, raised":    {log(1000, 4), bucketOf(3000, 0, 4), 0, 1000},
		"from a log, some used":             {log(1000, 1), bucketOf(1000, 0, 1), 300, 700},
		"from a log, some used, raised":     {log(1000, 1), bucketOf(2000, 0, 1), 300, 700},
		"from a log, some used, small":      {log(1000, 1), bucketOf(1000, 100, 1), 300, 70},
		"from a log, some used, large":      {log(1000, 1), bucketOf(1000, 9000, 1), 300, 700},
		"from a log, all used, raised":      {log(1000, 1), bucketOf(2000, 0, 1), 1000, 0},
		"from a counter, some used":         {counter, bucketOf(1000, 0, 1), 300, 700},
		"from a leaky bucket, never used":   {leaky, bucketOf(1000, 0, 1), 0, 1000},
		"from a log, some used, over moved": {log(1000, 4), bucketOf(1000, 0, 3), 400, 600},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(t, bubbled(t, 4).client(t), "l", c.from)
				if c.used > 0 {
					if d, err := l.AllowN(t.Context(), c.used); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
				}
				if err := l.SetLimit(t.Context(), c.to); err != nil {
					t.Fatal(err)
				}
				// A permit for each shard is what rounding may cost.
				few := int64(0)
				if c.to.Shards > 1 || c.from.Shards > 1 {
					few = int64(c.to.Shards)
				}
				st := peek(t, l)
				if st.Remaining > c.want || st.Remaining < c.want-few {
					t.Errorf("%d are there, want %d: %+v", st.Remaining, c.want, st)
				}
			})
		})
	}
}

// TestARevisionKeepsWhatIsUnused: a limit replaced by a declaration of a higher revision is as full
// as one that was set.
func TestARevisionKeepsWhatIsUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbled(t, 1)
		limiter(t, f.client(t), "l", bucketOf(1000, 0, 1))
		limit := bucketOf(2000, 0, 1)
		limit.Revision = 1
		l := limiter(t, f.client(t), "l", limit)
		settled(t, l)
		if st := peek(t, l); st.Remaining != 2000 {
			t.Errorf("%d are there: %+v", st.Remaining, st)
		}
	})
}

// TestACancelAfterAChangeGivesBackWhatWasGained: what a bucket gained while something was reserved
// is there after the limit was changed and the reservation cancelled.
func TestACancelAfterAChangeGivesBackWhatWasGained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: shardlimit.TokenBucket, Burst: 10,
			Shards: 1}
		l := limiter(t, bubbled(t, 1).client(t), "l", limit)
		if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		booked, err := l.Reserve(t.Context(), 10) // due in a second
		if err != nil {
			t.Fatal(err)
		}
		for _, permits := range []int64{30, 31} {
			time.Sleep(300 * time.Millisecond) // of the bubble's time
			limit.Permits = permits
			if err := l.SetLimit(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
		}
		if err := booked.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := peek(t, l); st.Remaining != 10 { // 3 and 9 were gained
			t.Errorf("%d are there: %+v", st.Remaining, st)
		}
	})
}
