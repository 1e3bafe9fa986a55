package waiting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// reservable runs a test over all algorithms on a real and on embedded servers, on 1 and 4 shards.
func reservable(t *testing.T, test func(t *testing.T, f limittest.Fleet, a shardlimit.Algorithm, shards int)) {
	for _, name := range []string{"embedded", "standalone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := limittest.Places[name](t)
			for _, a := range limittest.Algorithms {
				for _, shards := range []int{1, 4} {
					t.Run(fmt.Sprint(a, " over ", shards), func(t *testing.T) { test(t, f, a, shards) })
				}
			}
		})
	}
}

func TestEveryAlgorithmReservesAndTakesBack(t *testing.T) {
	t.Parallel()
	reservable(t, func(t *testing.T, f limittest.Fleet, a shardlimit.Algorithm, shards int) {
		limit := shardlimit.Limit{Permits: 80, Per: time.Hour, Algorithm: a, Shards: shards}
		l, other := limittest.Limiter(t, f.Client(t), t.Name(), limit),
			limittest.Limiter(t, f.Client(t), t.Name(), limit)
		least, most := 59*time.Minute, 65*time.Minute
		switch a {
		case shardlimit.FixedWindow:
			least = 1
		case shardlimit.LeakyBucket: // the last of 80 or of 20 turns
			least = 56 * time.Minute
		}
		if a != shardlimit.LeakyBucket {
			limittest.MustGet(t, l, limit.Permits)
		}
		used := limittest.Peek(t, other).Used
		for range 3 {
			r := mustReserve(t, l, limit.Permits)
			if d := r.Delay(); d < least || d > most {
				t.Fatalf("all permits come in %s", d)
			}
			// A turn that there is no room for would come just behind the others.
			far := (*shardlimit.TooFarAheadError)(nil)
			if _, err := other.Reserve(t.Context(), 1); !errors.As(err, &far) ||
				far.Delay <= limit.Per && (a != shardlimit.LeakyBucket || far.Delay < r.Delay()) {
				t.Fatalf("behind all permits: %v", err)
			}
			if d, err := other.Allow(t.Context()); err != nil || d.Allowed {
				t.Fatalf("beside all permits another is granted: %+v, %v", d, err)
			}
			if err := r.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			// A bucket gains a permit in 45 s. It was held back until all shards were due, so what
			// each lacks can have been rounded up.
			if st := limittest.Peek(t, other); st.Used < used-1 || st.Used > used && a != shardlimit.TokenBucket ||
				st.Used > used+int64(shards) {
				t.Fatalf("%d permits are in use after it was cancelled, want %d", st.Used, used)
			}
			l, other = other, l
			limittest.ForgetDenials(l) // what it heard of the shards before
		}
	})
}

func TestWhatComesAfterTheDeadlineIsNotReserved(t *testing.T) {
	t.Parallel()
	reservable(t, func(t *testing.T, f limittest.Fleet, a shardlimit.Algorithm, shards int) {
		limit := shardlimit.Limit{Permits: 80, Per: 31 * 24 * time.Hour, Algorithm: a, Shards: shards}
		l := limittest.Limiter(t, f.Client(t), t.Name(), limit)
		used := int64(0)
		if a != shardlimit.LeakyBucket {
			limittest.MustGet(t, l, limit.Permits)
			used = limit.Permits
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, err := l.Reserve(ctx, limit.Permits/2); !errors.Is(err, shardlimit.ErrWaitTooLong) {
			t.Errorf("%v, %v", r, err)
		}
		if now := limittest.Peek(t, l).Used; now != used {
			t.Errorf("%d permits are in use, want %d", now, used)
		}
	})
}

func TestEveryBoundHoldsWithReservations(t *testing.T) {
	for name, place := range map[string]func(testing.TB) limittest.Fleet{
		"embedded":   limittest.Places["embedded"],
		"standalone": limittest.Standalone,
	} {
		for _, a := range limittest.Algorithms {
			limit := shardlimit.Limit{Permits: 60, Per: 600 * time.Millisecond, Algorithm: a, Shards: 3}
			switch a {
			case shardlimit.TokenBucket:
				limit.Burst = 30
			case shardlimit.LeakyBucket: // turns of one shard are in order
				limit.Burst, limit.Shards = 60, 1
			}
			t.Run(fmt.Sprint(name, " ", a), func(t *testing.T) {
				limiters := limittest.AsOne(place(t).Group(t, 3, "l", limit))
				callers := limittest.NewTraffic(t)
				if a != shardlimit.LeakyBucket { // its callers are in the history when they are granted their turns
					callers.Start(1, limiters...)
				}
				var made, cancelled, ahead atomic.Int64
				var wg sync.WaitGroup
				stop := make(chan struct{})
				end := sync.OnceFunc(func() {
					close(stop)
					wg.Wait()
				})
				defer end() // also if the wait below fails
				for i, l := range limiters {
					wg.Go(func() {
						rng, tally := rand.New(rand.NewPCG(2, uint64(i))), callers.Record.Tally()
						size := limit
						if limit.Burst > 0 {
							size.Permits = min(limit.Burst, limit.Permits)
						}
						for {
							select {
							case <-stop:
								return
							default:
								reserveAndUse(t, l, rng, tally, size, &made, &cancelled, &ahead)
							}
						}
					})
				}
				limittest.AwaitThat(t, "some reserve ahead, and cancel",
					func() bool { return made.Load() > 8 && ahead.Load() > 0 && cancelled.Load() > 0 })
				end()
				ops, err := callers.Stop()
				if err != nil {
					t.Error(err)
				}
				for _, windows := range []int64{1, 4} {
					worst := limittest.KeepsTo(t,
						shardlimit.Limit{Permits: limittest.Admits(limit, windows),
							Per: time.Duration(windows) * limit.Per}, ops)
					t.Logf("%d of %d in %d windows", worst.Permits, limittest.Admits(limit, windows), windows)
				}
				t.Logf("%d reservations, %d ahead, %d cancelled; %d permits", made.Load(), ahead.Load(),
					cancelled.Load(), history.Total(ops))
			})
		}
	}
}
