package promises

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// For every number of permits and of shards: a caller that sleeps RetryAfter and is alone
// succeeds, one that comes 5 % earlier does not. Everybody who asks is new, so nothing but the
// reply can tell.
func TestNPermitsComeWhenRetryAfterSays(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			t.Parallel()
			f, set := limittest.Frozen(t, shards)
			limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: shards}
			rng := rand.New(rand.NewPCG(1, uint64(shards)))
			now := time.Unix(1_800_000_000, 0)
			for round := range 12 {
				name := fmt.Sprint(round)
				one := func() *shardlimit.Limiter { // of one participant: nobody else is waited for
					c := f.Client(t, limittest.PatientFor(30*time.Second),
						func(c *shardlimit.Config) { c.Participant = "alone" })
					return limittest.Limiter(t, c, name, limit)
				}
				set(now)
				l, used := one(), int64(0)
				for used < 36 {
					n := min(1+rng.Int64N(8), 40-used)
					if d, err := l.AllowN(t.Context(), n); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					used += n
					now = now.Add(time.Duration(1+rng.Int64N(300_000_000)) * time.Microsecond)
					set(now)
				}
				n := []int64{40 - used + 1, 12, 40 - rng.Int64N(10), 40}[round%4]
				st := limittest.Peek(t, l)
				if st.Used != used || st.Remaining != 40-used {
					t.Fatalf("used %d: %+v", used, st)
				}
				begun := time.Now()
				d, err := one().AllowN(t.Context(), n)
				if err != nil || d.Allowed {
					t.Fatalf("%d of %d free: %+v, %v", n, 40-used, d, err)
				}
				early, when := d.RetryAfter-d.RetryAfter/20, d.RetryAfter+time.Since(begun) // by its own clock
				set(now.Add(early.Truncate(time.Microsecond)))
				if d, err := one().AllowN(t.Context(), n); err != nil || d.Allowed {
					t.Fatalf("%d permits %s early: %+v, %v", n, when-early, d, err)
				}
				set(now.Add(when))
				if d, err = one().AllowN(t.Context(), n); err != nil || !d.Allowed {
					t.Fatalf("%d permits after %s: %+v, %v", n, when, d, err)
				}
				now = now.Add(2 * time.Hour)
			}
		})
	}
}

// What leaves the log of a lowered limit does not become free until enough has left.
func TestPeekOfALoweredLimitCountsWhatGetsFree(t *testing.T) {
	f, set := limittest.Frozen(t, 1)
	now := time.Unix(1_800_000_000, 0)
	set(now)
	l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(10))
	for range 10 { // one each minute
		if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		now = now.Add(time.Minute)
		set(now)
	}
	if err := l.SetLimit(t.Context(), shardlimit.PerHour(3)); err != nil {
		t.Fatal(err)
	}
	st := limittest.Peek(t, l)
	if st.RetryAfter != 57*time.Minute {
		t.Errorf("the first in %s", st.RetryAfter)
	}
}
