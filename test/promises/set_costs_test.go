package promises

import (
	"errors"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A call takes of each limit what it costs there, and is settled for each by itself.
func TestEachLimitOfASetHasItsCost(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		requests := limittest.Limiter(t, c, "requests", shardlimit.PerHour(10))
		tokens := limittest.Limiter(t, c, "tokens", shardlimit.Limit{Permits: 900, Per: 3600e9, Shards: 3})
		later := limittest.Limiter(t, c, "later", shardlimit.PerHour(50))
		used := func(want ...int64) {
			t.Helper()
			for i, l := range []*shardlimit.Limiter{requests, tokens, later} {
				if got := limittest.Peek(t, l).Used; got != want[i] {
					t.Errorf("%d of %s used, want %d", got, l.Name(), want[i])
				}
			}
		}
		set := shardlimit.All(requests.N(1), tokens.As("customer", 4).N(700), later.N(0))
		d, err := set.Allow(t.Context())
		if err != nil || !d.Allowed || d.Granted != 701 {
			t.Fatalf("%+v, %v", d, err)
		}
		used(1, 700, 0)
		if each := set.Each(d); each[1].Granted != 700 || each[2].Granted != 0 || !each[2].Allowed ||
			each[2].Limit != 50 || each[2].Remaining != 50 {
			t.Errorf("%+v", each)
		}
		denied, err := set.Allow(t.Context())
		each := set.Each(denied)
		if err != nil || denied.Allowed || !each[0].Allowed || each[1].Allowed || each[1].RetryAfter <= 0 ||
			!each[2].Allowed {
			t.Errorf("%+v, %v: %+v", denied, err, each)
		}
		used(1, 700, 0)
		for _, numbers := range [][]int64{nil, {1, 2}, {1, 2, 3, 4}, {1, -2, 0}} {
			if err := set.Settle(t.Context(), d, numbers...); !errors.Is(err, shardlimit.ErrInvalidPermits) {
				t.Errorf("settled for %v: %v", numbers, err)
			}
		}
		there := shardlimit.All(requests.N(1), tokens.N(1), later.N(5))
		if err := there.Settle(t.Context(), handOver(t, d), 1, 250, 7); err != nil {
			t.Error(err)
		}
		used(1, 250, 0)
		if err := set.Settle(t.Context(), d, 1, 0, 0); !errors.Is(err, shardlimit.ErrSettled) {
			t.Errorf("settled twice: %v", err)
		}
		used(1, 250, 0)
		if d, err = set.Allow(t.Context()); err != nil || d.Allowed { // 700 more are too many
			t.Errorf("%+v, %v", d, err)
		}
		set = shardlimit.All(requests.N(2), tokens.N(100))
		if d, err = set.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := set.Settle(t.Context(), d, 0, 180); err != nil {
			t.Error(err)
		}
		used(1, 430, 0)
	})
}

// A limit that stands in a Set twice is asked for the sum, and settled for it.
func TestALimitTwiceInASetCountsTheSum(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		family := limittest.Family(t, c, "f", shardlimit.PerHour(5))
		set := shardlimit.All(family.Limiter("a").N(2), family.Limiter("b").N(1), family.Limiter("a").N(1))
		d, err := set.Allow(t.Context())
		if err != nil || !d.Allowed || d.Granted != 4 {
			t.Fatalf("%+v, %v", d, err)
		}
		if used := limittest.Peek(t, family.Limiter("a")).Used; used != 3 {
			t.Errorf("%d used", used)
		}
		if denied, err := set.Allow(t.Context()); err != nil || denied.Allowed || set.Each(denied)[2].Allowed ||
			!set.Each(denied)[1].Allowed {
			t.Errorf("%+v, %v", denied, err)
		}
		if err := set.Settle(t.Context(), d, 1, 1, 1); err != nil {
			t.Error(err)
		}
		if used := limittest.Peek(t, family.Limiter("a")).Used; used != 2 {
			t.Errorf("%d used after it was settled for two", used)
		}
		_, err = shardlimit.All(family.Limiter("a").N(3), family.Limiter("a").N(3)).Allow(t.Context())
		if !errors.Is(err, shardlimit.ErrExceedsLimit) {
			t.Errorf("six of five: %v", err)
		}
	})
}
