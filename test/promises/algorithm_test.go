package promises

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// everyAlgorithm runs a test over all algorithms, places, and 1, 4 and 16 shards. Under the race
// detector each algorithm has one number of shards at each place, and all numbers at all places.
func everyAlgorithm(t *testing.T, test func(t *testing.T, f limittest.Fleet, limit shardlimit.Limit)) {
	for at, name := range slices.Sorted(maps.Keys(limittest.Places)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := limittest.Places[name](t)
			for i, a := range limittest.Algorithms {
				for k, shards := range []int{1, 4, 16} {
					if race.Enabled && (at+i+k)%3 != 0 {
						continue
					}
					limit := shardlimit.Limit{Permits: 80, Per: time.Hour, Algorithm: a, Shards: shards}
					t.Run(fmt.Sprint(a, " over ", shards), func(t *testing.T) { test(t, f, limit) })
				}
			}
		})
	}
}

func TestEveryAlgorithmGivesWhatThereIsAndNoMore(t *testing.T) {
	t.Parallel()
	everyAlgorithm(t, func(t *testing.T, f limittest.Fleet, limit shardlimit.Limit) {
		most := limit.Permits
		if limittest.Bursty(limit.Algorithm) {
			limit.Burst = 48
			most = limit.Burst
		}
		c := f.Client(t)
		l := limittest.Limiter(t, c, t.Name(), limit)
		if l.Limit() != limit {
			t.Fatalf("%+v is in force", l.Limit())
		}
		if _, err := l.AllowN(t.Context(), most+1); !errors.Is(err, shardlimit.ErrExceedsLimit) {
			t.Errorf("%d at once: %v", most+1, err)
		}
		st := limittest.SharesSumTo(t, l, limit.Permits)
		if st.Remaining != most || len(st.Shards) != limit.Shards {
			t.Errorf("unused: %+v", st)
		}
		if d, err := l.AllowN(t.Context(), most/2); err != nil || d.Granted != most/2 {
			t.Errorf("half of it: %+v, %v", d, err)
		}
		last, err := l.AllowUpTo(t.Context(), most)
		if err != nil || last.Granted != most-most/2 {
			t.Errorf("the rest: %+v, %v", last, err)
		}
		d, err := l.Allow(t.Context())
		if err != nil || d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 || d.RetryAfter > limit.Per {
			t.Errorf("one more: granted %d, retry after %s, %v", d.Granted, d.RetryAfter, err)
		}
		limittest.Must(t, l.Settle(t.Context(), last, 0))
		if again, err := l.AllowUpTo(t.Context(), most); err != nil || again.Granted != last.Granted {
			t.Errorf("%d were given back, %d were granted then: %v", last.Granted, again.Granted, err)
		}
		limittest.Must(t, l.Reset(t.Context()))
		if d, err := l.AllowN(t.Context(), most); err != nil || !d.Allowed {
			t.Errorf("everything after a reset: %+v, %v", d, err)
		}
	})
}

// What is in use under one algorithm is not free under the next.
func TestAChangeOfAlgorithmForgetsNothing(t *testing.T) {
	t.Parallel()
	everyAlgorithm(t, func(t *testing.T, f limittest.Fleet, limit shardlimit.Limit) {
		c := f.Client(t)
		changing := map[shardlimit.Algorithm]*shardlimit.Limiter{}
		for _, next := range limittest.Algorithms {
			if next == limit.Algorithm || race.Enabled && (int(next)+limit.Shards)%2 == 0 {
				continue // the script is another, and what runs side by side is the same
			}
			l := limittest.Limiter(t, c, t.Name()+" to "+next.String(), limit)
			changing[next] = l
			limittest.MustGet(t, l, limit.Permits)
			changed := limit
			changed.Algorithm = next
			limittest.Must(t, l.SetLimit(t.Context(), changed))
			if l.Limit() != changed {
				t.Errorf("%+v is in force", l.Limit())
			}
			// A bucket has a permit back every 45 seconds.
			d, err := l.AllowUpTo(t.Context(), limit.Permits)
			if err != nil || d.Granted > 1 {
				t.Errorf("to %s: %d permits more, %v", next, d.Granted, err)
			}
			if err := l.Reset(t.Context()); err != nil { // the old shards are empty then, and all capacity moves
				t.Fatal(err)
			}
		}
		for next, l := range changing {
			limittest.AwaitThat(t, "the change to "+next.String()+" is done",
				func() bool { return limittest.Peek(t, l).Settled })
			limittest.SharesSumTo(t, l, limit.Permits)
		}
	})
}

func TestEveryAlgorithmKeepsItsBound(t *testing.T) {
	t.Parallel()
	f, _ := limittest.Independent(t, 3)
	limit := shardlimit.Limit{Permits: 300, Per: 250 * time.Millisecond, Shards: 4}
	limiters := f.Group(t, 3, "l", limit)
	callers := limittest.NewTraffic(t)
	callers.Start(2, limiters...)
	from, last := history.Now(), limit
	type phase struct {
		limit    shardlimit.Limit
		from, to int64
	}
	var phases []phase
	for i, a := range append(limittest.Algorithms[1:], limittest.Algorithms[0]) {
		next := limit
		next.Algorithm, next.Shards = a, 1+5*i%7
		limittest.Must(t, limiters[i%3].SetLimit(t.Context(), next))
		phases = append(phases, phase{last, from, history.Now()})
		if st := limittest.AwaitOneLayout(t, limiters); st.Limit != next {
			t.Errorf("%s by %s is in force", st.Limit, st.Limit.Algorithm)
		}
		limittest.SharesSumTo(t, limiters[0], limit.Permits)
		from, last = history.Now(), next
		had := history.Total(callers.Record.Ops())
		limittest.AwaitThat(t, "it is in use",
			func() bool { return history.Total(callers.Record.Ops()) >= had+limit.Permits })
	}
	ops, err := callers.Stop()
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	for _, p := range phases {
		limittest.KeepsTo(t, limittest.Ceiling(p.limit), between(p.from, p.to, ops))
	}
	// where a token bucket gives way to something else
	limittest.KeepsTo(t, shardlimit.Limit{Permits: 3 * limit.Permits, Per: limit.Per}, ops)
	t.Log(callers)
}

// The turns of a leaky bucket on one shard are exactly one interval apart, whoever gets them and
// however many at once.
func TestLeakyBucketGivesTurns(t *testing.T) {
	t.Parallel()
	for name, place := range limittest.Places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const interval = 20 * time.Second
			limit := shardlimit.Limit{Permits: 3, Per: 3 * interval, Algorithm: shardlimit.LeakyBucket, Burst: 50,
				Shards: 1}
			l := limittest.Limiter(t, place(t).Client(t), "l", limit)
			begin := time.Now()
			var turn time.Duration
			for i, n := range []int64{1, 1, 5, 1, 10} {
				d := limittest.MustGet(t, l, n)
				turn += time.Duration(n) * interval
				// The first may act at once, and time passes meanwhile.
				if late := turn - interval - d.Delay; late < 0 || late > time.Since(begin)+time.Millisecond {
					t.Errorf("%d: turn after %s, want %s", i, d.Delay, turn-interval)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := limittest.Peek(t, l).Remaining
			if err := l.Wait(ctx); !errors.Is(err, shardlimit.ErrWaitTooLong) {
				t.Errorf("a turn after the deadline: %v", err)
			}
			if after := limittest.Peek(t, l).Remaining; after != before {
				t.Errorf("%d were free, and %d after a wait in vain", before, after)
			}
		})
	}
}

// While Redis is away each process goes on with its own part, by the same algorithm.
func TestFailLocalCountsByTheAlgorithm(t *testing.T) {
	t.Parallel()
	for _, a := range limittest.Algorithms {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			f, servers := limittest.Independent(t, 1)
			limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Algorithm: a, Shards: 1}
			want := limit.Permits
			if limittest.Bursty(a) {
				limit.Burst, want = 60, 60
			}
			l := limittest.Limiter(t, f.Client(t, func(c *shardlimit.Config) { c.OnOutage = shardlimit.FailLocal }),
				"l", limit)
			if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed || d.Degraded {
				t.Fatalf("%+v, %v", d, err)
			}
			servers[0].Kill()
			d, err := l.AllowUpTo(t.Context(), want)
			if err != nil || !d.Degraded || d.Granted != want-10 {
				t.Errorf("%d of %d, 10 in use: %v", d.Granted, want, err)
			}
			if (d.Delay > 0) != (a == shardlimit.LeakyBucket) {
				t.Errorf("a delay of %s", d.Delay)
			}
			if d, err := l.Allow(t.Context()); err != nil || d.Allowed || d.RetryAfter <= 0 {
				t.Errorf("one more: granted %d, retry after %s, %v", d.Granted, d.RetryAfter, err)
			}
		})
	}
}

// A burst larger than what a window gives comes back when the bucket says.
func TestRetryAfterOfALargeBurst(t *testing.T) {
	for _, c := range []struct {
		limit   shardlimit.Limit
		n, less int64
	}{
		{shardlimit.Limit{Permits: 60, Per: time.Minute, Burst: 200, Algorithm: shardlimit.TokenBucket}, 61, 140},
		{shardlimit.Limit{Permits: 2, Per: 10 * time.Second, Burst: 4, Algorithm: shardlimit.LeakyBucket}, 3, 2},
	} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			c.limit.Shards = 1
			l := limittest.Limiter(t, f.Client(t), "l", c.limit)
			limittest.MustGet(t, l, c.less)
			d, err := l.AllowN(t.Context(), c.n)
			if err != nil || d.Allowed || d.RetryAfter > c.limit.Per/2 {
				t.Errorf("%+v, %v", d, err)
			}
			time.Sleep(d.RetryAfter)
			limittest.MustGet(t, l, c.n)
		})
	}
}
