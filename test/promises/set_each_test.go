package promises

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Each limit of a Set says what it has left, also when another one refuses.
func TestEachLimitOfASetTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		minute := limittest.Limiter(t, c, "minute", shardlimit.PerMinute(3))
		hour := limittest.Limiter(t, c, "hour", shardlimit.Limit{Permits: 9, Per: time.Hour, Shards: 1})
		mine := limittest.Limiter(t, c, "mine", limittest.PerParticipant(5, 24*time.Hour))
		set := shardlimit.All(hour.N(1), minute.N(2), hour.N(2), mine.N(4))
		says := func(d shardlimit.Decision, granted []int64, left ...int64) {
			t.Helper()
			each := set.Each(d)
			if len(each) != len(left) {
				t.Fatalf("%d limits: %+v", len(each), each)
			}
			for i, said := range each {
				limit := []int64{9, 3, 9, 5}[i]
				if said.Limit != limit || said.Remaining != left[i] || said.Granted != granted[i] ||
					said.Allowed != (said.RetryAfter == 0) {
					t.Errorf("limit %d of %+v: %+v, want %d left", i, d, said, left[i])
				}
			}
		}
		d, err := set.Allow(t.Context())
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		says(d, []int64{3, 2, 3, 4}, 6, 1, 6, 1)
		part := set.Each(d)[0]
		if err := hour.Settle(t.Context(), part, 0); err != nil {
			t.Error(err)
		}
		for range 3 { // as heard from the shards, and as remembered
			d, err := set.Allow(t.Context())
			if err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			says(d, make([]int64, 4), 6, 1, 6, 1)
			if each := set.Each(d); each[1].Allowed || !each[0].Allowed || each[3].Allowed {
				t.Errorf("%+v", each)
			}
			if err := set.Settle(t.Context(), d, 0, 0, 0, 0); err != nil {
				t.Error(err)
			}
		}
		if each := set.Each(shardlimit.Decision{}); each != nil {
			t.Errorf("of no decision of the set: %+v", each)
		}
	})
}
