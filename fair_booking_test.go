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
	booked := make([]int64, 14)
	begin := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for limiters[0].WaitN(ctx, 2) == nil {
				mu.Lock()
				booked[min(len(booked)-1, int(time.Since(begin)/(250*time.Millisecond)))] += 2
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Second)
	var late []*demander
	for _, l := range limiters[1:] {
		late = append(late, &demander{limiter: l, rate: 400}) // of the 80 each is entitled to
	}
	contend(t, time.Second, 1500*time.Millisecond, &record, late...)
	wg.Wait()
	var got []int64
	for _, p := range late {
		got = append(got, p.granted.Load())
	}
	t.Logf("booked in each quarter of a second: %v, the others took %v of 120 in the last three windows", booked, got)
	least := int64(75) // without claims of those who were refused 20 to 58 on a real server
	if rough {
		least = 60 // half of what they want
	}
	for _, n := range got {
		if n < least {
			return fmt.Errorf("the others took %v of 120", got)
		}
	}
	return nil
}
