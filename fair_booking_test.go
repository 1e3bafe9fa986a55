package shardlimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Who filled the limit alone and books on, several permits at a time, gives way
// to those who come later.
func TestBookingsGiveWayToThoseWhoComeLater(t *testing.T) {
	fairly(t, bookingTrial)
}

func bookingTrial(t *testing.T, f fleet, rough bool) error {
	limit := shardlimit.Limit{Permits: 160, Per: 500 * time.Millisecond, Shards: 1}
	limiters := f.group(t, 4, "l", limit)
	var record history.Recorder
	var booked []time.Duration // when, two permits each
	begin := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for limiters[0].WaitN(ctx, 2) == nil {
				mu.Lock()
				booked = append(booked, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Second)
	var late []*demander
	for _, l := range limiters[1:] {
		late = append(late, &demander{limiter: l, rate: 400}) // of the 80 each is entitled to
	}
	warm := time.Since(begin) + time.Second
	contend(t, time.Second, 1500*time.Millisecond, &record, late...)
	wg.Wait()
	var all int64
	var got []int64
	for _, p := range late {
		got = append(got, p.granted.Load())
		all += p.granted.Load()
	}
	for _, at := range booked {
		if at >= warm {
			all += 2
		}
	}
	t.Logf("of the %d permits of the last three windows the others took %v", all, got)
	least := int64(75) // of 120; without claims of those who were refused 20 to 58 on a real server
	if rough {
		// three quarters of their parts of what the machine was quick enough to use
		least = max(all, limit.Permits) * 3 / 16
	}
	for _, n := range got {
		if n < least {
			return fmt.Errorf("the others took %v of %d", got, all)
		}
	}
	return nil
}
