package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/ratelike"
)

// Whatever was refused has left no hole: whoever polls a leaky bucket for turns that come soon gets
// all of them, however many poll.
func TestPollersOfALeakyBucketGetEveryTurn(t *testing.T) {
	for name, poll := range map[string]func(context.Context, *shardlimit.Limiter) bool{
		"ratelike.Allow": func(_ context.Context, l *shardlimit.Limiter) bool { return ratelike.New(l).Allow() },
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
			if race.Enabled && shards > 1 {
				continue // the detector finds the same
			}
			limittest.RunInBubble(t, fmt.Sprint(name, " on ", shards), 1, func(t *testing.T, f limittest.Fleet) {
				limit := shardlimit.Limit{
					Permits: 12, Per: time.Second, Algorithm: shardlimit.LeakyBucket, Shards: shards,
				}
				const long = 5 * time.Second
				most := limit.Permits*int64(long/limit.Per) + int64(shards)
				got, late := polled(t, f, limit, long, poll), limit.Permits/2 // the last wait on for a while
				if t.Logf("%d turns of %d", got, most); got > most+late || got < most*9/10 {
					t.Error("too many or too few")
				}
			})
		}
	}
}

// polled is how many turns two processes with eight pollers each get.
func polled(t *testing.T, f limittest.Fleet, limit shardlimit.Limit, long time.Duration,
	poll func(context.Context, *shardlimit.Limiter) bool) int64 {
	var got atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	for p := range 2 {
		l := f.Limiter(t, limit)
		limittest.Settled(t, l)
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

// A process that rested while the queue of a bucket was made shorter takes no turn farther ahead
// than the new one has: a takeover does not wait for more.
func TestWhoRestedTakesTurnsByTheLimitInForce(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		before := shardlimit.Limit{Permits: 10, Per: time.Minute, Burst: 25, Shards: 1,
			Algorithm: shardlimit.LeakyBucket}
		rests, other := fl.Limiter(t, before, limittest.TakesOver), fl.Limiter(t, before, limittest.TakesOver)
		limittest.Settled(t, other)
		limittest.MustGet(t, rests, 1)
		after := before
		after.Burst = 2
		limittest.Must(t, other.SetLimit(t.Context(), after))
		limittest.Settled(t, other)
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
		for i, n := range fl.Nodes {
			fl.Bubble[i].Down.Store(n.Name == limittest.Peek(t, other).Shards[0].Node)
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
