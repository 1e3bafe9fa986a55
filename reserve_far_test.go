package shardlimit_test

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
)

var buckets = []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.LeakyBucket}

// perShard is a bucket of one permit a second for each of its shards.
func perShard(a shardlimit.Algorithm, shards int) shardlimit.Limit {
	n := int64(shards)
	return shardlimit.Limit{Permits: n, Per: time.Second, Burst: n, Algorithm: a, Shards: shards}
}

// A bucket reserves one permit after the other, as its rate has them, and cancels the last.
func TestABucketReservesFarAhead(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		for _, a := range buckets {
			for _, shards := range []int{1, 3} {
				limit := perShard(a, shards)
				limit.Per = time.Minute // nothing comes while the test runs
				l := limiter(t, f.client(t), fmt.Sprint(a, shards), limit)
				var last *shardlimit.Reservation
				for i := range 40 * shards {
					r := mustReserve(t, l, 1)
					due := time.Duration(i/shards) * limit.Per
					if off := (r.Delay() - due).Abs(); off > limit.Per/2 {
						t.Fatalf("%v over %d, number %d comes in %s, want %s", a, shards, i, r.Delay(), due)
					}
					last = r
				}
				delay := last.Delay()
				if err := last.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				if r := mustReserve(t, l, 1); (r.Delay() - delay).Abs() > limit.Per/2 {
					t.Errorf("%v over %d: after a cancellation the next comes in %s, not %s", a, shards, r.Delay(),
						delay)
				}
			}
		}
	})
}

// How far that is bounded by the deadline, and else by an hour; by a minute for a key of a family;
// by two bursts with Failover.
func TestHowFarABucketReserves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*shardlimit.Limit)
		key    bool
		bound  time.Duration
	}{
		"alone":         {bound: time.Hour},
		"a key":         {key: true, bound: time.Minute},
		"short windows": {key: true, change: func(l *shardlimit.Limit) { l.Per /= 4 }, bound: 16 * time.Second},
		"taken over":    {change: func(l *shardlimit.Limit) { l.Failover = true }, bound: 20 * time.Second},
		"a long burst":  {change: func(l *shardlimit.Limit) { l.Burst = 7200 }, bound: 4 * time.Hour},
		"for each": {change: func(l *shardlimit.Limit) { l.Scope = shardlimit.PerParticipant },
			bound: time.Hour},
		"for each, a key": {change: func(l *shardlimit.Limit) { l.Scope = shardlimit.PerParticipant }, key: true,
			bound: time.Minute},
	} {
		for _, a := range buckets {
			t.Run(fmt.Sprint(name, a), func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, f fleet) {
					limit := shardlimit.Limit{Permits: 1, Per: time.Second, Burst: 10, Algorithm: a, Shards: 1}
					if c.change != nil {
						c.change(&limit)
					}
					client, l := f.client(t, wary), (*shardlimit.Limiter)(nil)
					if c.key {
						l = keyed(t, client, "f", limit).Limiter("k")
					} else {
						l = limiter(t, client, "l", limit)
						settled(t, l)
					}
					for _, deadline := range []time.Duration{c.bound / 2, 0} {
						want, bound := shardlimit.ErrTooManyReservations, c.bound
						ctx := t.Context()
						if deadline > 0 {
							want, bound, ctx = shardlimit.ErrWaitTooLong, deadline, shortly(t, deadline)
						}
						farthest, err := reserveAll(ctx, l, limit.Burst)
						takes := time.Duration(limit.Burst) * limit.Per
						if !errors.Is(err, want) || farthest > bound || farthest < bound-takes-time.Second {
							t.Errorf("as far as %s, want %s: %v", farthest, bound, err)
						}
					}
				})
			})
		}
	}
}

// reserveAll reserves n permits time after time, and tells how far ahead that went and why it
// ended.
func reserveAll(ctx context.Context, l *shardlimit.Limiter, n int64) (farthest time.Duration, err error) {
	for {
		r, err := l.Reserve(ctx, n)
		if err != nil {
			return farthest, err
		}
		farthest = r.Delay()
	}
}

// What the callers of a process reserve far ahead, use, and cancel, keeps the bound, on real
// servers too.
func TestFarReservationsKeepTheBound(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		for _, a := range buckets {
			limit := shardlimit.Limit{Permits: 20, Per: 2 * time.Second, Burst: 5, Algorithm: a}
			var record history.Recorder
			var wg sync.WaitGroup
			var farthest atomic.Int64
			l := limiter(t, f.client(t), a.String(), limit)
			for k := range 8 {
				wg.Go(func() {
					rng, tally := rand.New(rand.NewPCG(1, uint64(k))), record.Tally()
					for goOn := true; goOn && farthest.Load() < 4*int64(limit.Per); {
						goOn = reserveFor(t, l, rng, tally, &farthest)
					}
				})
			}
			wg.Wait()
			ops := record.Ops()
			for _, windows := range []int64{1, 4, 16} {
				keepsTo(t, shardlimit.Limit{Permits: admits(limit, windows), Per: time.Duration(windows) * limit.Per},
					ops)
			}
		}
	})
}

// reserveFor notes a permit for when it may be used. It reports false if none could be reserved.
func reserveFor(t *testing.T, l *shardlimit.Limiter, rng *rand.Rand, tally *history.Tally,
	farthest *atomic.Int64) bool {
	start := history.Now()
	r, err := l.Reserve(context.Background(), 1)
	switch {
	case err != nil:
		t.Error(err)
		return false
	case rng.IntN(3) == 0:
		if err := r.Cancel(context.Background()); err != nil {
			t.Error(err)
		}
	default:
		delay := int64(r.Delay())
		farthest.Store(max(farthest.Load(), delay))
		tally.Add(start+delay, history.Now()+delay, 1)
	}
	return true
}

// Who wants more than its part books no more ahead than a share that credit has not paid for.
func TestWhoContendsReservesNoFurtherThanItsPart(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, f fleet) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Shards: 1}
		l, other := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
		mustGet(t, l, limit.Permits)
		for range 12 { // each wants all of it
			for _, who := range []*shardlimit.Limiter{l, other} {
				if _, err := who.AllowN(t.Context(), limit.Permits); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(limit.Per / 8)
		}
		farthest, err := reserveAll(t.Context(), l, 1)
		if !errors.Is(err, shardlimit.ErrTooManyReservations) || farthest > 2*limit.Per {
			t.Errorf("%s ahead: %v", farthest, err)
		}
	})
}
