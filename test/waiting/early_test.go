package waiting

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// Where a permit came back early, callers of other processes hear of the next one within 250 ms:
// those who wait, for one or several, and those who ask.
func TestASettleIsHeardElsewhere(t *testing.T) {
	for i := range 8 {
		n, shards, waits := []int64{1, 10}[i%2], []int{1, 3}[i/2%2], i < 4
		limittest.RunInBubble(t, fmt.Sprint(n, shards, waits), 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 6 * n, Per: time.Hour, Shards: shards}
			a, b := f.Limiter(t, limit), f.Limiter(t, limit)
			limittest.Must(t, a.Settle(t.Context(), limittest.MustGet(t, a, limit.Permits), 0))
			all := limittest.MustGet(t, a, limit.Permits)
			var freed time.Time
			time.AfterFunc(17*time.Second, func() {
				freed = time.Now()
				limittest.Must(t, a.Settle(t.Context(), all, 0))
			})
			got, err := shardlimit.Decision{}, error(nil)
			if waits {
				got, err = b.Acquire(t.Context(), n)
			}
			for err == nil && !got.Allowed {
				got, err = b.AllowN(t.Context(), n)
				time.Sleep(time.Millisecond)
			}
			if late := time.Since(freed); err != nil || late > 260*time.Millisecond {
				t.Errorf("%s late, %+v, %v", late, got, err)
			}
		})
	}
}

// Where nothing comes back early nobody asks for it.
func TestWaitersDoNotPollForNothing(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 5, Per: time.Minute, Shards: 1}
		l := f.Limiter(t, limit)
		limittest.MustGet(t, l, 5)
		calls := f.Bubble[0].Calls.Load()
		limittest.Must(t, limittest.Err(l.Acquire(t.Context(), 1)))
		if n := f.Bubble[0].Calls.Load() - calls; n > 30 { // looks at 3.75 s, and reads of the record
			t.Errorf("%d script calls", n)
		}
	})
}

// Where fewer permits come back than participants wait for, all are used from the beginning on, and
// by all in turn. Callers that wait for more than a shard has book at several shards: a part that
// is given back at once does not make the others look again.
func TestFewPermitsAreUsedByManyWhoWait(t *testing.T) {
	if race.Enabled {
		return // TestPermitsThatComeBackEarlyAreShared has as many wait
	}
	for _, c := range []struct {
		permits, n, minutes, waiters int64
		shards                       int
	}{{1, 1, 50, 10, 0}, {2, 1, 50, 10, 0}, {2, 2, 50, 10, 0}, {600, 300, 8, 6, 3}} {
		limittest.RunInBubble(t, fmt.Sprint(c), max(c.shards, 1), func(t *testing.T, f limittest.Fleet) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(c.minutes)*time.Minute, cancel)
			granted := make([]int64, c.waiters)
			var all sync.WaitGroup
			for i := range granted {
				l := f.Limiter(t, shardlimit.Limit{Permits: c.permits, Per: time.Minute, Shards: c.shards})
				all.Go(func() {
					for l.WaitN(ctx, c.n) == nil {
						granted[i] += c.n
					}
				})
			}
			all.Wait()
			sum, calls := int64(0), int64(0)
			for i, n := range granted {
				sum += n
				if c.shards == 0 && n < c.minutes*c.permits/c.waiters*6/10 { // else large parts come by chance
					t.Errorf("participant %d got %d permits", i, n)
				}
			}
			for _, node := range f.Bubble {
				calls += node.Calls.Load()
			}
			if sum < c.minutes*c.permits*94/100 || calls > c.minutes*1500 { // seen: 800 calls a minute
				t.Errorf("%d of %d permits were used, with %d script calls", sum, c.minutes*c.permits, calls)
			}
		})
	}
}

// Batches that wait in other processes, with what they booked, hear of a reset and of a raise in
// time, and are served as a new limit would serve them: what they owe is of the limit before.
func TestBatchesThatWaitHearOfMore(t *testing.T) {
	for _, c := range []struct {
		per, within time.Duration
		raised      int64 // 0: it is reset
	}{{time.Minute, 5 * time.Second, 0}, {time.Minute, 5 * time.Second, 1000}, {time.Hour, 30 * time.Second, 1000}} {
		limittest.RunInBubble(t, fmt.Sprint(c), 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 100, Per: c.per, Shards: 1}
			ctx, end := context.WithCancel(t.Context())
			var granted atomic.Int64
			var all sync.WaitGroup
			of := []*shardlimit.Limiter{f.Limiter(t, limit), f.Limiter(t, limit), f.Limiter(t, limit), f.Limiter(t, limit)}
			for _, l := range slices.Concat(of, of) {
				all.Go(func() {
					for l.WaitN(ctx, 10) == nil {
						granted.Add(10)
						time.Sleep(time.Millisecond)
					}
				})
			}
			time.Sleep(5 * time.Second)
			before, l := granted.Load(), f.Limiter(t, limit)
			more := max(c.raised-before, before)
			if limit.Permits = c.raised; c.raised > 0 {
				limittest.Must(t, l.SetLimit(t.Context(), limit))
			} else {
				limittest.Must(t, l.Reset(t.Context()))
			}
			time.Sleep(c.within)
			if got := granted.Load() - before; before != 100 || got < more*9/10 {
				t.Errorf("%d, and then %d more", before, got)
			}
			end()
			all.Wait()
		})
	}
}
