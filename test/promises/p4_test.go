package promises

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

func TestSharesSumToTheLimitForOddLimits(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	for _, permits := range []int64{1, 2, 7, 11, 9_999_991} {
		for shards := 1; shards <= 16; shards++ {
			l := limittest.Limiter(t, c, fmt.Sprint(permits, "/", shards),
				shardlimit.Limit{Permits: permits, Per: time.Minute, Shards: shards})
			limittest.SharesSumTo(t, l, permits) // nothing used yet
			limittest.MustGet(t, l, permits)
			if st := limittest.SharesSumTo(t, l, permits); st.Used != permits || st.Remaining != 0 {
				t.Errorf("%d permits over %d shards: %d used, %d remain", permits, shards, st.Used, st.Remaining)
			}
		}
	}
}

// The last permit is on one of many shards, and whoever wants it knows nothing
// of them: a newcomer, or a process that already has work elsewhere.
func TestTheLastPermitIsFoundWhereverItIs(t *testing.T) {
	f := limittest.Standalone(t)
	for _, shards := range []int{1, 2, 7, 16} {
		limit := shardlimit.Limit{Permits: 48, Per: time.Minute, Shards: shards}
		spender := limittest.Limiter(t, f.Client(t), fmt.Sprint(shards), limit)
		for range 8 {
			limittest.Must(t, spender.Reset(t.Context()))
			for range limit.Permits - 1 {
				limittest.MustGet(t, spender, 1)
			}
			newcomer := limittest.Limiter(t, f.Client(t), fmt.Sprint(shards), limit)
			limittest.MustGet(t, newcomer, 1)
			limittest.Denied(t, newcomer, 1)
		}
	}
}

// Whatever number callers ask for, none is denied while so many are free: the
// limit is used up to less than the number. Of collections that compete for the
// last permits none may succeed; that is rare, and one that comes alone then does.
// The processes call for one participant, so that nothing is kept for others.
func TestConcurrentCallersLeaveNothingBehind(t *testing.T) {
	f := limittest.Standalone(t)
	for _, n := range []int64{1, 3, 10, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			const rounds = 4
			limit := shardlimit.Limit{Permits: 400, Per: time.Minute, Shards: 16}
			want := limit.Permits / n * n
			var together []int64
			for round := range rounds {
				name := fmt.Sprint("by-", n, "-", round)
				got := limittest.TakeAll(t, limittest.AsOne(f.Group(t, 6, name, limit)), 4, n)
				together = append(together, got)
				last := limittest.AsOne(f.Group(t, 1, name, limit))
				if all := got + limittest.TakeAll(t, last, 1, n); all != want {
					t.Errorf("asking for %d: %d granted, want %d", n, all, want)
				}
			}
			slices.Sort(together)
			t.Logf("asking for %d: of %d they got %v", n, want, together)
			if together[1] < want {
				t.Errorf("asking for %d: in more than one round of %d permits were left behind", n, rounds)
			}
		})
	}
}

// The demand is half as much again as the limit and comes from ten processes, each of which knows
// only what its own calls have told it. Time is the bubble's: a machine that is slow or stalls
// would not ask for the whole limit.
func TestUnderOverloadTheWholeLimitIsUsed(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		windows := extent.Some(int64(8)) // that count
		limit := shardlimit.Limit{Permits: 1000, Per: time.Second, Shards: 8}
		// what nobody else may have is to be used, late or not
		demand := limittest.NewDemand(t, 666*time.Microsecond, limittest.AsOne(f.Group(t, 10, "l", limit))...)
		time.Sleep(time.Duration(windows+1) * limit.Per)
		ops := demand.Stop()
		limittest.KeepsTo(t, limit, ops)
		counts := history.PerWindow(limit.Per, int64(limit.Per), (windows+1)*int64(limit.Per), ops)
		if t.Log(counts); slices.Min(counts) < limit.Permits*97/100 {
			t.Errorf("admitted by window: %v", counts)
		}
	})
}

// TestALoweredLimitIsUsed: in the second after a limit was lowered, nearly all that the new limit
// admits is used. No window that begins then holds more.
func TestALoweredLimitIsUsed(t *testing.T) {
	const shards = 4
	for _, a := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter} {
		for _, processes := range []int{1, 4} {
			if race.Enabled && processes == 1 {
				continue // what runs side by side is the same with more
			}
			limittest.RunInBubble(t, fmt.Sprint(a, " of ", processes), shards, func(t *testing.T, f limittest.Fleet) {
				limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: shards, Algorithm: a}
				limiters := f.Group(t, processes, "l", limit)
				demand := limittest.NewDemand(t, 1500*time.Microsecond, limiters...)
				time.Sleep(2 * time.Second) // of the bubble's time
				limit.Permits = 240
				limittest.Must(t, limiters[0].SetLimit(t.Context(), limit))
				lowered := demand.Now()
				time.Sleep(3 * time.Second)
				ops := limittest.Since(lowered, demand.Stop())
				limittest.KeepsTo(t, limit, ops)
				used := history.PerWindow(limit.Per, lowered, lowered+int64(time.Second), ops)[0]
				if used < 210 || processes == 1 && used < 238 {
					t.Errorf("%d of 240 were used in the second after", used)
				}
			})
		}
	}
}

// A node that answers late, but answers, is asked less by callers that come together: the shorter
// queue wins. It keeps its permits: who asks for more than the others have gets them.
func TestASlowNodeIsAskedLessAndKeepsItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 4).Distant(t, time.Millisecond)
		limit := shardlimit.Limit{Permits: 400_000, Per: time.Second, Shards: 4}
		l := f.Limiter(t, limit)
		limittest.Settled(t, l)
		slow := net[0]
		slow.Takes.Store(int64(40 * time.Millisecond))
		const callers, rounds = 16, 200
		var quick atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range rounds {
					began := time.Now()
					if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
						t.Errorf("%+v, %v", d, err)
					}
					if time.Since(began) <= 3*time.Millisecond {
						quick.Add(1)
					}
				}
			})
		}
		all.Wait()
		if quick.Load() < callers*rounds*9/10 {
			t.Errorf("%d of %d calls were not held up by it", quick.Load(), callers*rounds)
		}
		time.Sleep(time.Second)
		if got := limittest.Exhaust(t, l, limit.Permits); got != limit.Permits {
			t.Errorf("%d of %d permits while it is slow", got, limit.Permits)
		}
	})
}

// An idle limit grants nine tenths of itself to one call, however many shards it has.
func TestALargeCallIsServedFromManyShards(t *testing.T) {
	for shards, rtt := range map[int]time.Duration{8: 10 * time.Millisecond, 32: 3 * time.Millisecond,
		64: time.Millisecond, 256: 0} {
		limittest.RunInBubble(t, fmt.Sprint(shards, " shards ", rtt), 2, func(t *testing.T, f limittest.Fleet) {
			f, _ = f.Distant(t, rtt)
			l := f.Limiter(t, shardlimit.Limit{Permits: 1_000_000, Per: time.Minute, Shards: shards})
			for range extent.Some(5) {
				d := limittest.Served(t, l, 900_000)
				if more := limittest.Denied(t, l, 100_001); more.RetryAfter < 50*time.Second {
					t.Errorf("more than there is: %+v", more)
				}
				limittest.Must(t, l.Settle(t.Context(), limittest.MustGet(t, l, 100_000), 0))
				limittest.Must(t, l.Settle(t.Context(), d, 0))
				time.Sleep(time.Second)
			}
		})
	}
}

// What a process knows of the shards may be old: others have used them, or given back.
func TestALargeCallIsServedWhateverWasBelieved(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		f, _ = f.Distant(t, 2*time.Millisecond)
		limit := shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}
		mine, other := f.Limiter(t, limit), f.Limiter(t, limit)
		all := limittest.MustGet(t, other, 3200)
		limittest.Denied(t, mine, 1600)
		limittest.Must(t, other.Settle(t.Context(), all, 0))
		time.Sleep(2 * time.Second) // longer than an outlook is believed
		limittest.MustGet(t, mine, 3200)
		time.Sleep(time.Minute)
		limittest.MustGet(t, other, 2000)
		limittest.MustGet(t, mine, 1200) // the rest, beside what another process took
	})
}

// What a process did not see may be free: nobody is refused for that from memory.
func TestWhoDidNotSeeEveryShardRefusesNobody(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		f, net := f.Distant(t, time.Millisecond)
		l := f.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 8})
		limittest.MustGet(t, l, 200)
		if d := limittest.Denied(t, l, 900); d.RetryAfter < 50*time.Minute {
			t.Errorf("100 are missing: %+v", d)
		}
		time.Sleep(5 * time.Second)
		net[0].Takes.Store(int64(37 * time.Millisecond)) // to collect and give back: hardly any is left for a look
		if d := limittest.Denied(t, l, 900); d.RetryAfter > time.Second && d.RetryAfter < 50*time.Minute {
			t.Errorf("100 are missing, and it may not know: %+v", d)
		}
		net[0].Takes.Store(int64(time.Millisecond))
		limittest.MustGet(t, l, 800)
	})
}

// Of processes that collect at the same time one is served, and none of them holds on to a part.
// They call for one participant, so that fairness does not keep permits for one of them.
func TestOfRivalsWhoCollectOneIsServed(t *testing.T) {
	for _, rivals := range []int{2, 3, 8} {
		for _, rtt := range []time.Duration{0, 2 * time.Millisecond} {
			if !extent.Full && rivals == 8 || race.Enabled && rtt == 0 {
				continue
			}
			limittest.RunInBubble(t, fmt.Sprint(rivals, " rivals ", rtt), 2, func(t *testing.T, f limittest.Fleet) {
				f, _ = f.Distant(t, rtt)
				limit := shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}
				all := limittest.AsOne(f.Group(t, rivals, "l", limit))
				served := 0
				for range 10 {
					var winner atomic.Pointer[shardlimit.Decision]
					s := limittest.Together(rivals, func(i int) (shardlimit.Decision, error) {
						d, err := all[i].AllowN(t.Context(), 1920)
						if d.Allowed {
							winner.Store(&d)
						}
						return d, err
					})
					if s.Failed+s.Degraded > 0 || s.Allowed > 1 {
						t.Fatalf("%+v", s)
					}
					served += s.Allowed
					time.Sleep(2 * time.Second) // what was collected in vain is back, and outlooks are old
					limittest.Uses(t, all[0], int64(1920*s.Allowed))
					if d := winner.Load(); d != nil {
						for _, l := range all {
							_ = l.Settle(t.Context(), *d, 0)
						}
					}
				}
				if served < 9 {
					t.Errorf("%d of 10 times one was served", served)
				}
			})
		}
	}
}
