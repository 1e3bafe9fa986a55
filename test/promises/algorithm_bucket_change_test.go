package promises

import (
	"testing"
	"testing/synctest"
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limittest.Limiter(t, limittest.Bubbled(t, 4).Client(t), "l", c.from)
				if c.used > 0 {
					if d, err := l.AllowN(t.Context(), c.used); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
				}
				if err := l.SetLimit(t.Context(), c.to); err != nil {
					t.Fatal(err)
				}
				if st := limittest.Peek(t, l); st.Remaining != c.want {
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
		f := limittest.Bubbled(t, 1)
		limittest.Limiter(t, f.Client(t), "l", bucketOf(1000, 0, 1))
		limit := bucketOf(2000, 0, 1)
		limit.Revision = 1
		l := limittest.Limiter(t, f.Client(t), "l", limit)
		limittest.Settled(t, l)
		if st := limittest.Peek(t, l); st.Remaining != 2000 {
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
		l := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "l", limit)
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
		if st := limittest.Peek(t, l); st.Remaining != 10 { // 3 and 9 were gained
			t.Errorf("%d are there: %+v", st.Remaining, st)
		}
	})
}
