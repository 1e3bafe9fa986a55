package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Callers that give up at the moment when a permit comes do not take it with them: four callers
// with little patience get every permit that there is, through a Set of one as through its Limiter.
func TestNoPermitIsLostToCallersWhoGiveUp(t *testing.T) {
	const every, lasts = 60 * time.Millisecond, 5 * time.Second
	for _, c := range []struct {
		algorithm shardlimit.Algorithm
		rtt       time.Duration
		patience  time.Duration
	}{
		{shardlimit.SlidingLog, 0, 30 * time.Millisecond},
		{shardlimit.SlidingLog, 0, 100 * time.Millisecond},
		{shardlimit.SlidingLog, 4 * time.Millisecond, 30 * time.Millisecond},
		{shardlimit.TokenBucket, 0, 50 * time.Millisecond},
	} {
		limit := shardlimit.Limit{Permits: 1, Per: every, Algorithm: c.algorithm}
		if c.algorithm == shardlimit.TokenBucket {
			limit.Burst = 1
		}
		// A permit that came too late goes back and out again: three round trips.
		least := int64(lasts/(every+4*c.rtt)) - 1
		for name, waiting := range map[string]func(*shardlimit.Limiter) func(context.Context) error{
			"Limiter": func(l *shardlimit.Limiter) func(context.Context) error { return l.Wait },
			"Set":     func(l *shardlimit.Limiter) func(context.Context) error { return limittest.Set(1, l).Wait },
		} {
			synctest.Test(t, func(t *testing.T) {
				f, _ := limittest.Bubbled(t, 1).Distant(t, c.rtt)
				l := limittest.Limiter(t, f.Client(t), "l", limit)
				if got := servedOfFour(t, waiting(l), c.patience, lasts); got < least {
					t.Errorf("%s, %s away, for %s: a %s got %d permits, want %d", c.algorithm, c.rtt, c.patience, name,
						got, least)
				}
			})
		}
	}
}

// servedOfFour is how often four callers were served who try again and again.
func servedOfFour(t *testing.T, wait func(context.Context) error, patience, lasts time.Duration) int64 {
	t.Helper()
	var served atomic.Int64
	end := time.Now().Add(lasts)
	done := make(chan struct{})
	for range 4 {
		go func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if wait(ctx) == nil {
					served.Add(1)
				}
				cancel()
				time.Sleep(time.Millisecond) // of the bubble: who is refused at once comes again
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
	return served.Load()
}
