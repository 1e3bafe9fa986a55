package waiting

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// Where a permit came back early, callers of other processes hear of the next one within 250 ms:
// those who wait, for one or several, and those who ask.
func TestASettleIsHeardElsewhere(t *testing.T) {
	for _, n := range []int64{1, 10} {
		for _, shards := range []int{1, 3} {
			for _, waits := range []bool{true, false} {
				limittest.RunInBubble(t, fmt.Sprint(n, shards, waits), 1, func(t *testing.T, f limittest.Fleet) {
					heardElsewhere(t, f, n, shards, waits)
				})
			}
		}
	}
}

func heardElsewhere(t *testing.T, f limittest.Fleet, n int64, shards int, waits bool) {
	limit := shardlimit.Limit{Permits: 6 * n, Per: time.Hour, Shards: shards}
	a, b := f.Limiter(t, limit), f.Limiter(t, limit)
	take := func() shardlimit.Decision {
		d, err := a.AllowUpTo(t.Context(), limit.Permits)
		if err != nil || d.Granted != limit.Permits {
			t.Fatalf("%+v %v", d, err)
		}
		return d
	}
	settle := func(d shardlimit.Decision) {
		limittest.Must(t, a.Settle(t.Context(), d, 0))
	}
	settle(take())
	all := take()
	var freed time.Time
	time.AfterFunc(17*time.Second, func() {
		freed = time.Now()
		settle(all)
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
// by all in turn.
func TestFewPermitsAreUsedByManyWhoWait(t *testing.T) {
	if race.Enabled {
		return // TestPermitsThatComeBackEarlyAreShared has as many wait
	}
	for _, c := range []struct{ permits, n int64 }{{1, 1}, {2, 1}, {2, 2}} {
		limittest.RunInBubble(t, fmt.Sprint(c), 1, func(t *testing.T, f limittest.Fleet) {
			const minutes, waiters = 50, 10
			granted, sum, _ := takeTurns(t, f, waiters, minutes, c.n, shardlimit.PerMinute(c.permits))
			for i, n := range granted {
				if n < minutes*c.permits/waiters*6/10 {
					t.Errorf("participant %d got %d permits", i, n)
				}
			}
			if sum < minutes*c.permits*94/100 {
				t.Errorf("%d of %d permits were used", sum, minutes*c.permits)
			}
		})
	}
}

// TestRivalsForMoreThanAShardHasAskSeldom: callers that wait for more than a shard has book at
// several shards. A part that is given back at once does not make the others look again.
func TestRivalsForMoreThanAShardHasAskSeldom(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		const minutes, waiters = 8, 6
		limit := shardlimit.Limit{Permits: 600, Per: time.Minute, Shards: 3}
		granted, sum, calls := takeTurns(t, f, waiters, minutes, 300, limit)
		t.Logf("%d permits, %d script calls: %v", sum, calls, granted)
		if calls > 12_000 || sum < minutes*600*95/100 { // seen: 6,400
			t.Error("they ask too often, or permits are unused")
		}
	})
}

// takeTurns has participants wait for n permits each, again and again. It returns what each got,
// all of that, and the script calls that it took.
func takeTurns(t *testing.T, f limittest.Fleet, waiters int, minutes time.Duration, n int64,
	limit shardlimit.Limit) (granted []int64, sum, calls int64) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(minutes*time.Minute, cancel)
	granted = make([]int64, waiters)
	var all sync.WaitGroup
	for i := range granted {
		l := limittest.Limiter(t, f.Client(t, func(c *shardlimit.Config) { c.Participant = fmt.Sprint(i) }), "l", limit)
		all.Go(func() {
			for l.WaitN(ctx, n) == nil {
				granted[i] += n
			}
		})
	}
	all.Wait()
	for i := range granted {
		sum += granted[i]
	}
	for _, node := range f.Bubble {
		calls += node.Calls.Load()
	}
	return granted, sum, calls
}
