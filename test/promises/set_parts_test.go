package promises

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A call takes of each limit what it costs there, and is settled for each by itself, also in
// another process.
func TestEachLimitOfASetHasItsCost(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		open := func() (requests, tokens, later *shardlimit.Limiter) {
			c := f.Client(t)
			return limittest.Limiter(t, c, "requests", shardlimit.PerHour(10)),
				limittest.Limiter(t, c, "tokens", shardlimit.Limit{Permits: 900, Per: time.Hour, Shards: 3}),
				limittest.Limiter(t, c, "later", shardlimit.PerHour(50))
		}
		requests, tokens, later := open()
		used := func(want ...int64) {
			t.Helper()
			for i, l := range []*shardlimit.Limiter{requests, tokens, later} {
				limittest.Uses(t, l, want[i])
			}
		}
		set := shardlimit.All(requests.N(1), tokens.As("customer", 4).N(700), later.N(0))
		d := limittest.Passes(t, set)
		used(1, 700, 0)
		if each := set.Each(d); each[1].Granted != 700 || each[2].Granted != 0 || !each[2].Allowed ||
			each[2].Limit != 50 || each[2].Remaining != 50 || d.Granted != 701 {
			t.Errorf("%+v: %+v", d, each)
		}
		each := set.Each(limittest.Refuses(t, set))
		if !each[0].Allowed || each[1].Allowed || each[1].RetryAfter <= 0 || !each[2].Allowed {
			t.Errorf("%+v", each)
		}
		used(1, 700, 0)
		for _, numbers := range [][]int64{nil, {1, 2}, {1, 2, 3, 4}, {1, -2, 0}} {
			limittest.ErrorIs(t, set.Settle(t.Context(), d, numbers...), shardlimit.ErrInvalidPermits, numbers)
		}
		limittest.ErrorIs(t, requests.Settle(t.Context(), handOver(t, d), 2), shardlimit.ErrOtherLimiter)
		one, many, none := open()
		limittest.Must(t, shardlimit.All(one.N(1), many.N(1), none.N(5)).Settle(t.Context(), handOver(t, d), 1, 250, 7))
		used(1, 250, 0)
		limittest.ErrorIs(t, set.Settle(t.Context(), d, 1, 0, 0), shardlimit.ErrSettled, "settled twice")
		used(1, 250, 0)
		limittest.Refuses(t, set) // 700 more are too many
		set = shardlimit.All(requests.N(2), tokens.N(100))
		limittest.Must(t, set.Settle(t.Context(), limittest.Passes(t, set), 0, 180))
		used(1, 430, 0)
	})
}

// Each limit of a Set says what it has left, also when another one refuses. One that stands there
// twice is asked for the sum, and settled for it.
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
				name := []string{"hour", "minute", "hour", "mine"}[i]
				if said.Limiter() != name || said.Limit != limit || said.Remaining != left[i] || said.Granted != granted[i] ||
					said.Allowed != (said.RetryAfter == 0) {
					t.Errorf("limit %d of %+v: %+v, want %d left", i, d, said, left[i])
				}
			}
		}
		d := limittest.Passes(t, set)
		says(d, []int64{3, 2, 3, 4}, 6, 1, 6, 1)
		limittest.Must(t, hour.Settle(t.Context(), set.Each(d)[0], 0))
		for range 3 { // as heard from the shards, and as remembered
			d := limittest.Refuses(t, set)
			says(d, make([]int64, 4), 6, 1, 6, 1)
			if each := set.Each(d); each[1].Allowed || !each[0].Allowed || each[3].Allowed {
				t.Errorf("%+v", each)
			}
			limittest.Must(t, set.Settle(t.Context(), d, 0, 0, 0, 0))
		}
		limittest.Must(t, set.Settle(t.Context(), d, 1, 1, 1, 4))
		limittest.Uses(t, hour, 2)
		if each := set.Each(shardlimit.Decision{}); each != nil {
			t.Errorf("of no decision of the set: %+v", each)
		}
	})
}

// A Set that is denied counts permits as free that it has given back.
func TestADeniedSetTellsWhatIsLeftAfterIt(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		one := limittest.Limiter(t, c, "one", shardlimit.PerMinute(1))
		turns := limittest.Limiter(t, c, "turns", shardlimit.Limit{Permits: 6, Per: time.Minute, Shards: 1,
			Algorithm: shardlimit.LeakyBucket})
		ten := limittest.Limiter(t, c, "ten", shardlimit.PerMinute(10))
		limittest.MustGet(t, turns, 1)
		limittest.MustGet(t, limittest.Limiter(t, f.Client(t), "ten", shardlimit.PerMinute(10)), 7) // unheard of by c
		set := shardlimit.All(one.N(1), turns.N(2), ten.N(5))
		d := limittest.Refuses(t, set)
		if d.Limit != 1 || d.Remaining != 1 || d.NextAfter != 0 || d.Delay != 0 {
			t.Errorf("%+v", d)
		}
		for i, said := range set.Each(d) {
			if said.Remaining != []int64{1, 5, 3}[i] || said.NextAfter != 0 || said.Delay != 0 {
				t.Errorf("number %d: %+v", i+1, said)
			}
		}
	})
}

// A limit that has nothing to be settled with hides from nobody that the others had it before.
func TestASetIsSettledOnceWhateverItsParts(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		hour := limittest.Limiter(t, c, "hour", shardlimit.PerHour(10))
		second := limittest.Limiter(t, c, "second", shardlimit.PerSecond(10))
		off := limittest.Limiter(t, c, "off", in(shardlimit.Off, shardlimit.PerHour(10)))
		away := limittest.Bubbled(t, 1)
		pass := away.Client(t, limittest.OnOutage(shardlimit.FailOpen))
		open := limittest.Limiter(t, pass, "open", shardlimit.PerHour(10))
		closed := limittest.Limiter(t, away.Client(t), "closed", shardlimit.PerHour(10))
		both := limittest.Set(1, hour, closed)
		got := limittest.Passes(t, both)
		away.Bubble[0].Down.Store(true)
		for _, other := range []*shardlimit.Limiter{second, off, open} {
			set := limittest.Set(5, other, hour)
			d := limittest.Passes(t, set)
			handed := handOver(t, d)
			time.Sleep(3 * time.Second) // the second is over
			limittest.ErrorIs(t, set.Settle(t.Context(), d, 1, 0), nil, other.Name())
			limittest.ErrorIs(t, set.Settle(t.Context(), d, 1, 0), shardlimit.ErrSettled, "again", other.Name())
			if err := set.Settle(t.Context(), handed, 1, 0); other != second && !errors.Is(err, shardlimit.ErrSettled) {
				t.Errorf("%s: handed over: %v", other.Name(), err)
			}
		}
		if err := both.Settle(t.Context(), got, 0, 0); err == nil {
			t.Error("no error while a node is away")
		}
		away.Bubble[0].Down.Store(false)
		limittest.AwaitThat(t, "the node is back", func() bool {
			_, err := closed.Allow(t.Context())
			return err == nil
		})
		limittest.Must(t, both.Settle(t.Context(), got, 0, 0))
		limittest.ErrorIs(t, both.Settle(t.Context(), got, 0, 0), shardlimit.ErrSettled, "all once more")
	})
}

// A Set that has a turn sleeps until then. Who leaves before it gives back what it had.
func TestWaitOfASetSleepsUntilItsTurn(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		leaky := limittest.Limiter(t, c, "leaky", shardlimit.Limit{
			Permits: 6, Per: time.Minute, Algorithm: shardlimit.LeakyBucket, Burst: 6, Shards: 1,
		})
		roomy := limittest.Limiter(t, c, "roomy", shardlimit.PerMinute(100))
		set := limittest.Set(1, leaky, roomy)
		limittest.Must(t, set.Wait(t.Context())) // the next turn is in ten seconds
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- set.Wait(ctx) }()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		limittest.Uses(t, roomy, 2)
		cancel()
		limittest.ErrorIs(t, <-ended, context.Canceled, "before its turn")
		synctest.Wait() // what it had is given back behind the caller
		limittest.Uses(t, roomy, 1)
		if d := limittest.MustGet(t, leaky, 1); d.Delay > time.Second {
			t.Errorf("the turn was not given back: %+v", d)
		}
	})
}
