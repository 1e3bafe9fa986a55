package promises

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestASetPassesOnlyWhatEveryLimitHasRoomFor(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	small := limittest.Limiter(t, c, "small", shardlimit.PerMinute(5))
	large := limittest.Limiter(t, c, "large", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4})
	mine := limittest.Limiter(t, c, "mine", limittest.PerParticipant(50, time.Hour))
	set := shardlimit.All(large.N(1), small.N(1), mine.N(1))
	for i := range 5 {
		d := limittest.Passes(t, set)
		if d.Granted != 3 || d.Limit != 5 || d.Remaining != int64(4-i) || d.RetryAfter != 0 ||
			d.ResetAfter < time.Minute {
			t.Fatalf("call %d: %+v", i, d)
		}
	}
	for i := range 20 {
		d := limittest.Refuses(t, limittest.Set(int64(1+i%4), large, small, mine))
		if d.Granted != 0 || d.Remaining != 0 || d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
			t.Fatalf("call %d: %+v", i, d)
		}
	}
	for _, l := range []*shardlimit.Limiter{small, large, mine} {
		limittest.Uses(t, l, 5)
	}
	keys := limittest.Family(t, c, "keys", shardlimit.PerHour(10))
	plan := shardlimit.Limit{Permits: 5}
	for _, bad := range []struct {
		set  *shardlimit.Set
		want error
	}{
		{shardlimit.All(large.N(1), small.N(3), small.N(3)), shardlimit.ErrExceedsLimit}, // the sum of one limit
		{shardlimit.All(large.N(1), small.N(-1)), shardlimit.ErrInvalidPermits},
		{shardlimit.All(large.N(1), shardlimit.Part{}), shardlimit.ErrInvalidLimit},
		{limittest.Set(1, large, nil), shardlimit.ErrInvalidLimit},
		{shardlimit.All(keys.LimiterWith("k", plan).N(1), keys.Limiter("k").N(1)), shardlimit.ErrInvalidLimit},
	} {
		limittest.ErrorIs(t, limittest.Err(bad.set.Allow(t.Context())), bad.want)
		limittest.ErrorIs(t, bad.set.Wait(t.Context()), bad.want)
		if err := bad.set.Settle(t.Context(), shardlimit.Decision{}); err == nil {
			t.Errorf("settled, want %v", bad.want)
		}
	}
	k := keys.Limiter("k")
	limittest.Passes(t, shardlimit.All(k.N(2), keys.LimiterWith("l", plan).N(1), k.N(1)))
	limittest.Uses(t, keys.Limiter("k"), 3)
}

// The limit that refuses for longest says when to come back and is named, also if it was not the
// one that this call was refused by.
func TestRetryAfterOfASetIsThatOfItsLastLimit(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	minute := limittest.Family(t, c, "minute", shardlimit.PerMinute(10)).Limiter("ann")
	hour := limittest.Limiter(t, c, "hour", shardlimit.Limit{Permits: 15, Per: time.Hour, Shards: 2})
	for _, order := range [][]*shardlimit.Limiter{{minute, hour}, {hour, minute}} {
		limittest.Must(t, errors.Join(minute.Reset(t.Context()), hour.Reset(t.Context())))
		refusedBy := func(name string, n int64) shardlimit.Decision {
			t.Helper()
			set := limittest.Set(n, order...)
			d := limittest.Refuses(t, set)
			for _, said := range append(set.Each(d), d) {
				if said.Allowed != (said.Reason == 0) || d.Limiter() != name || d.Reason != shardlimit.ReasonFull {
					t.Errorf("%s: %q of %q: %+v", name, d.Reason, d.Limiter(), said)
				}
			}
			return d
		}
		for range 10 {
			if d := limittest.Passes(t, limittest.Set(1, order...)); d.Limiter() != "" || d.Reason != 0 {
				t.Errorf("%+v", d)
			}
		}
		if d := refusedBy("minute", 1); d.RetryAfter > time.Minute {
			t.Errorf("one more: %+v", d) // only the minute is full
		}
		for i := range 3 { // both are: the hour has 5 left
			if d := refusedBy("hour", 6); d.RetryAfter < 50*time.Minute {
				t.Errorf("six more, answer %d: %+v", i, d)
			}
		}
		if d := limittest.Denied(t, minute, 1); d.Limiter() != "minute" {
			t.Error(d.Limiter())
		}
	}
}

func TestSleepingRetryAfterOfASetSucceeds(t *testing.T) {
	for _, n := range []int64{1, 3} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			c := f.Client(t)
			set := limittest.Set(n,
				limittest.Limiter(t, c, "short", shardlimit.Limit{Permits: 3, Per: 200 * time.Millisecond}),
				limittest.Limiter(t, c, "long", shardlimit.Limit{Permits: 8, Per: 2 * time.Second, Shards: 2}),
				limittest.Limiter(t, c, "mine", limittest.PerParticipant(5, 500*time.Millisecond)))
			for denied := 0; denied < 20; {
				d, err := set.Allow(t.Context())
				limittest.Must(t, err)
				if !d.Allowed {
					denied++
					time.Sleep(d.RetryAfter)
					limittest.Passes(t, set)
				}
			}
		})
	}
}

func TestTheLimitsOfASetAreAskedAtTheSameTime(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		const away = 10 * time.Millisecond
		f, _ = f.Distant(t, away)
		c := f.Client(t)
		set := limittest.Set(1, limittest.Family(t, c, "second", shardlimit.PerSecond(1000)).Limiter("ann"),
			limittest.Family(t, c, "hour", shardlimit.PerHour(1000)).Limiter("ann"),
			limittest.Limiter(t, c, "all", shardlimit.PerHour(100)))
		for _, most := range []time.Duration{5 * away, away} { // the first loads the script
			began := time.Now()
			if limittest.Passes(t, set); time.Since(began) > most {
				t.Errorf("after %s", time.Since(began))
			}
		}
	})
}

// A limit that is known to be empty refuses for the others, also for those that might refuse, too.
func TestASetAsksNobodyWhileOneLimitIsEmpty(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		empty := limittest.Limiter(t, c, "empty", shardlimit.Limit{Permits: 5, Per: time.Hour, Shards: 1})
		scarce := limittest.Limiter(t, c, "scarce", shardlimit.Limit{Permits: 6, Per: time.Hour, Shards: 1})
		plenty := limittest.Limiter(t, c, "plenty", shardlimit.PerHour(1000))
		limittest.Passes(t, limittest.Set(5, empty, scarce, plenty))
		limittest.Denied(t, empty, 2)
		// This process believes that one permit is left there, and would be granted two.
		other := limittest.Limiter(t, f.Client(t), "scarce", shardlimit.PerHour(6))
		limittest.Must(t, other.Reset(t.Context()))
		synctest.Wait()
		atMost := sends(&f.Bubble[0].Calls)
		limittest.Refuses(t, limittest.Set(2, empty, scarce, plenty))
		atMost(t, 1, "a refusal that is certain: one looks when the scarce one can grant so many")
	})
}

// Many calls of every kind and size at once, of which most are refused by one
// limit or another: at the end each limit has used exactly what was granted.
func TestNothingIsLostOverManyRandomCallsOnASet(t *testing.T) {
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		hour := limittest.Limiter(t, c, "hour", shardlimit.PerHour(400))
		day := limittest.Limiter(t, c, "day", shardlimit.Limit{Permits: 300, Per: 24 * time.Hour, Shards: 3})
		mine := limittest.Limiter(t, c, "mine", limittest.PerParticipant(350, time.Hour))
		kinds := [][]*shardlimit.Limiter{{hour, day, mine}, {mine, hour}, {day, hour}, {hour}}
		kept := map[*shardlimit.Limiter]*atomic.Int64{hour: {}, day: {}, mine: {}}
		var left atomic.Int64
		left.Store(extent.Some(int64(8000)))
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(worker)))
				var held []func()
				for left.Add(-1) >= 0 {
					kind := kinds[rng.IntN(len(kinds))]
					var parts []shardlimit.Part
					var got, used []int64
					for _, l := range kind {
						n := rng.Int64N(7)
						parts, got, used = append(parts, l.N(n)), append(got, n), append(used, rng.Int64N(n+1))
					}
					set := shardlimit.All(parts...)
					d, err := set.Allow(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						for i, l := range kind {
							kept[l].Add(got[i])
						}
						held = append(held, func() {
							for range 2 {
								limittest.ErrorIs(t, limittest.Once(set.Settle(context.Background(), d, used...)), nil)
							}
							for i, l := range kind {
								kept[l].Add(used[i] - got[i])
							}
						})
					}
					if len(held) > 0 && (d.Allowed && rng.IntN(4) == 0 || rng.IntN(16) == 0) {
						held[len(held)-1]()
						held = held[:len(held)-1]
					}
				}
			})
		}
		wg.Wait()
		for l, n := range kept {
			st := limittest.Peek(t, l)
			if st.Used != n.Load() || st.Used+st.Remaining != st.Limit.Permits {
				t.Errorf("%s: %d used and %d free of %d; %d were granted and kept", l.Name(), st.Used, st.Remaining,
					st.Limit.Permits, n.Load())
			}
		}
	})
}

func TestALimitOfASetHasItsOwnPolicy(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, there limittest.Fleet) {
		hour := shardlimit.PerHour(10)
		local := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "here", hour)
		closed := limittest.Limiter(t, there.Client(t), "there", hour)
		open := limittest.Limiter(t, there.Client(t, limittest.OnOutage(shardlimit.FailOpen)), "there", hour)
		there.Bubble[0].Down.Store(true)
		for range 5 {
			err := limittest.Err(limittest.Set(3, local, closed).Allow(t.Context()))
			limittest.ErrorIs(t, err, shardlimit.ErrUnavailable, "FailClosed")
		}
		limittest.Uses(t, local, 0)
		if d := limittest.Passes(t, limittest.Set(3, local, open)); !d.Degraded || d.Granted != 6 {
			t.Errorf("FailOpen: %+v", d)
		}
		limittest.Uses(t, local, 3)
		limittest.MustGet(t, local, 7)
		for _, set := range []*shardlimit.Set{limittest.Set(1, local, closed), limittest.Set(1, closed, local)} {
			limittest.Refuses(t, set)
		}
	})
}
