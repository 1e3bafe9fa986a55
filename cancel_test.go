package shardlimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/race"
)

// TestCancelledReservationsKeepNothingFromOthers: of ten participants nine wait for single permits
// all the time, and one reserves many on four shards and cancels before they are due, again and
// again, or waits for them and gives up. Where cancelling was free the nine had 0.1 of their parts
// beside one that reserved the whole limit.
func TestCancelledReservationsKeepNothingFromOthers(t *testing.T) {
	for name, cheat := range map[string]func(context.Context, *shardlimit.Limiter) int64{
		"reserves 400": reserveAndCancel(400), "gives up": giveUp,
	} {
		if race.Enabled && name != "gives up" {
			continue // what runs side by side is the same
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cancelTrial(t, bubbled(t, 1), 4, cheat) })
		})
	}
}

// cheatEvery is how long one that cancels waits at least before it reserves again.
const cheatEvery = 10 * time.Millisecond

// reserveAndCancel reserves n permits and cancels 20 ms before they are due. It returns what it has
// used.
func reserveAndCancel(n int64) func(ctx context.Context, l *shardlimit.Limiter) int64 {
	return func(ctx context.Context, l *shardlimit.Limiter) int64 {
		r, err := l.Reserve(ctx, n)
		if err != nil {
			time.Sleep(cheatEvery)
			return 0
		}
		time.Sleep(max(r.Delay()-20*time.Millisecond, cheatEvery)) // the time of a bubble must go on
		if r.Delay() == 0 {
			return n
		}
		_ = r.Cancel(ctx)
		return 0
	}
}

// giveUp waits for 400 permits, but not longer than 700 ms.
func giveUp(ctx context.Context, l *shardlimit.Limiter) int64 {
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(700*time.Millisecond, cancel).Stop() // no deadline, or it would not begin to wait
	defer cancel()
	if l.WaitN(ctx, 400) != nil {
		time.Sleep(cheatEvery)
		return 0
	}
	return 400
}

func cancelTrial(t *testing.T, f fleet, shards int, cheat func(context.Context, *shardlimit.Limiter) int64) {
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: shards}
	limiters := f.group(t, 10, "l", limit)
	const measured = 10 // what the one may keep from the others at once is its part of ten windows
	begin := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), (4+measured)*limit.Per)
	defer stop()
	var others, used atomic.Int64
	var wg sync.WaitGroup
	count := func(sum *atomic.Int64, n int64) {
		if time.Since(begin) >= 4*limit.Per {
			sum.Add(n)
		}
	}
	for _, l := range limiters[1:] {
		for range 4 {
			wg.Go(func() {
				for l.Wait(ctx) == nil {
					count(&others, 1)
				}
			})
		}
	}
	time.Sleep(2 * limit.Per)
	for ctx.Err() == nil {
		count(&used, cheat(ctx, limiters[0]))
	}
	wg.Wait()
	kept := float64(others.Load()) / float64(limit.Permits*measured*9/10)
	t.Logf("the nine have %.2f of their parts, the one used %d", kept, used.Load())
	if kept < 0.7 {
		t.Errorf("the nine have %.2f of their parts, the one used %d", kept, used.Load())
	}
}
