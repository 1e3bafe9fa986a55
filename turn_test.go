package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/ratelike"
)

// A yes without waiting is for permits that may be used at once, whatever the algorithm, the shards
// and the number asked for.
func TestWhoDoesNotWaitHasAYesOnlyForWhatMayActNow(t *testing.T) {
	for _, a := range algorithms {
		for _, shards := range []int{1, 3} {
			t.Run(fmt.Sprint(a, " on ", shards), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limit := shardlimit.Limit{Permits: 12, Per: time.Minute, Algorithm: a, Shards: shards}
					l := limiter(t, bubbled(t, 1).client(t), "l", limit)
					settled(t, l)
					want := limit.Permits
					if a == shardlimit.LeakyBucket { // each shard has a turn
						want = int64(shards)
					}
					for range 3 {
						yes := int64(0)
						for range 2 * limit.Permits {
							if ok, err := l.TryAcquire(t.Context(), 1, 0); err != nil {
								t.Fatal(err)
							} else if ok {
								yes++
							}
						}
						d, err := l.AcquireWithin(t.Context(), 1, 0)
						if yes != want || err != nil || d.Allowed || d.RetryAfter <= 0 {
							t.Errorf("%d of %d at once, then %+v, %v", yes, want, d, err)
						}
						if a != shardlimit.LeakyBucket {
							break
						}
						time.Sleep(d.RetryAfter)
						want = int64(shards) // the next turns
					}
				})
			})
		}
	}
}

// So it is on real servers and embedded ones.
func TestATurnIsTakenOnlyWhenItHasCome(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		for _, shards := range []int{1, 3} {
			limit := shardlimit.Limit{
				Permits: 12, Per: time.Hour, Algorithm: shardlimit.LeakyBucket, Shards: shards}
			var yes int64
			for range 2 {
				l := limiter(t, f.client(t), fmt.Sprint(shards), limit)
				settled(t, l)
				for range limit.Permits {
					ok, err := l.TryAcquire(t.Context(), 1, 0)
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						yes++
					}
				}
				if st := peek(t, l); yes != int64(shards) || st.Used != yes {
					t.Errorf("%d of all on %d shards, %d used", yes, shards, st.Used)
				}
			}
		}
	})
}

// Whatever was refused has left no hole: whoever polls a leaky bucket for turns that come soon gets
// all of them, however many poll.
func TestPollersOfALeakyBucketGetEveryTurn(t *testing.T) {
	for name, poll := range map[string]func(context.Context, *shardlimit.Limiter) bool{
		"ratelike.Allow": func(_ context.Context, l *shardlimit.Limiter) bool { return ratelike.New(l).Allow() },
		"TryAcquire": func(ctx context.Context, l *shardlimit.Limiter) bool {
			ok, _ := l.TryAcquire(ctx, 1, 0)
			return ok
		},
		"AcquireWithin": func(ctx context.Context, l *shardlimit.Limiter) bool {
			d, err := l.AcquireWithin(ctx, 1, 5*time.Millisecond)
			return err == nil && d.Allowed
		},
		"Wait": func(ctx context.Context, l *shardlimit.Limiter) bool {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			return l.Wait(ctx) == nil
		},
		"Wait for longer": func(ctx context.Context, l *shardlimit.Limiter) bool {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return l.Wait(ctx) == nil
		},
		"Reserve": func(ctx context.Context, l *shardlimit.Limiter) bool {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			_, err := l.Reserve(ctx, 1)
			return err == nil
		},
	} {
		for _, shards := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " on ", shards), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := bubbled(t, 1)
					limit := shardlimit.Limit{
						Permits: 12, Per: time.Second, Algorithm: shardlimit.LeakyBucket, Shards: shards,
					}
					const long = 10 * time.Second
					most := limit.Permits*int64(long/limit.Per) + int64(shards)
					got, late := polled(t, f, limit, long, poll), limit.Permits/2 // the last wait on for a while
					if t.Logf("%d turns of %d", got, most); got > most+late || got < most*9/10 {
						t.Error("too many or too few")
					}
				})
			})
		}
	}
}

// polled is how many turns two processes with eight pollers each get.
func polled(t *testing.T, f fleet, limit shardlimit.Limit, long time.Duration,
	poll func(context.Context, *shardlimit.Limiter) bool) int64 {
	var got atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	for p := range 2 {
		l := limiter(t, f.client(t), "l", limit)
		settled(t, l)
		for k := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(k)))
				for time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond); time.Now().Before(end); {
					if poll(t.Context(), l) {
						got.Add(1)
					}
					time.Sleep(time.Duration(1+rng.IntN(40)) * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	return got.Load()
}

// A turn that comes in time is waited for. RetryAfter tells when one comes.
func TestATurnThatComesInTimeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Algorithm: shardlimit.LeakyBucket, Shards: 1}
		l := limiter(t, bubbled(t, 1).client(t), "l", limit)
		mustGet(t, l, 5) // the next turn is in 30 s
		const within = 10 * time.Second
		d, err := l.AcquireWithin(t.Context(), 1, within)
		if err != nil || d.Allowed || d.RetryAfter < 29*time.Second || d.RetryAfter > 31*time.Second {
			t.Fatalf("%+v, %v", d, err)
		}
		time.Sleep(d.RetryAfter - within)
		began := time.Now()
		d, err = l.AcquireWithin(t.Context(), 1, within)
		if took := time.Since(began); err != nil || !d.Allowed || d.Delay != 0 || took < within-time.Second {
			t.Fatalf("%+v, %v after %s", d, err, took)
		}
		if _, err := l.Reserve(shortly(t, time.Second), 1); !errors.Is(err, shardlimit.ErrWaitTooLong) {
			t.Fatal(err)
		}
		if st := peek(t, l); st.Used != 1 {
			t.Errorf("%d turns are taken", st.Used)
		}
	})
}

// A process that rested while the queue of a bucket was made shorter takes no turn farther ahead
// than the new one has: a takeover does not wait for more.
func TestWhoRestedTakesTurnsByTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 3)
		fl.punctual = true
		before := shardlimit.Limit{Permits: 10, Per: time.Minute, Burst: 25, Shards: 1, Failover: true,
			Algorithm: shardlimit.LeakyBucket}
		rests, other := limiter(t, fl.client(t), "l", before), limiter(t, fl.client(t), "l", before)
		settled(t, other)
		if _, err := rests.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := before
		after.Burst = 2
		if err := other.SetLimit(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		settled(t, other)
		time.Sleep(31 * time.Minute) // no shard has state that would tell of the change
		begun := time.Now()
		var record history.Recorder
		tally := record.Tally()
		used := func() { tally.Add(int64(time.Since(begun)), int64(time.Since(begun)), 1) }
		ctx, cancel := context.WithTimeout(t.Context(), 149*time.Second)
		defer cancel()
		var turns sync.WaitGroup
		for range 25 {
			turns.Go(func() {
				if _, err := rests.Acquire(ctx, 1); err == nil {
					used()
				}
			})
		}
		time.Sleep(time.Second)
		for i, n := range fl.nodes {
			nodes[i].down.Store(n.Name == peek(t, other).Shards[0].Node)
		}
		for time.Since(begun) < 5*time.Minute {
			if d, err := other.Allow(t.Context()); err == nil && d.Allowed {
				turns.Go(func() {
					time.Sleep(d.Delay)
					used()
				})
			}
			time.Sleep(500 * time.Millisecond)
		}
		turns.Wait()
		// turns are evenly spaced, so a window holds one more than the permits
		if worst, ok := history.Check(after.Per, after.Permits+1, record.Ops()); !ok {
			t.Error(worst)
		}
	})
}
