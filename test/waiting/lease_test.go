package waiting

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestLeasesNeverExceedTheLimit has several processes with leases compete for a
// limit, and checks every decision against it.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	for _, shards := range []int{1, 4} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 200, Per: 200 * time.Millisecond, Lease: 20 * time.Millisecond,
				Shards: shards}
			demand := limittest.NewDemand(t, 500*time.Microsecond, f.Group(t, 3, "leased", limit)...)
			time.Sleep(5 * limit.Per)
			ops := demand.Stop()
			limittest.KeepsTo(t, limit, ops)
			if total := history.Total(ops); total < 3*limit.Permits {
				t.Errorf("%d permits were granted in five windows of %d", total, limit.Permits)
			}
		})
	}
}

// A lease is there to answer without Redis.
func TestLeaseAnswersManyCallsWithFewScripts(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "held",
			shardlimit.Limit{Permits: 100_000, Per: time.Minute, Lease: 30 * time.Second, Shards: 1})
		before := f.Bubble[0].Calls.Load()
		const calls = 2000
		for range calls {
			limittest.MustGet(t, l, 1)
		}
		if scripts := f.Bubble[0].Calls.Load() - before; scripts == 0 || scripts > calls/20 {
			t.Errorf("%d calls took %d scripts", calls, scripts)
		}
	})
}

// Leases end while others take from them: what was not taken goes back, all of it.
func TestLeasesThatEndInUseReturnTheRest(t *testing.T) {
	f := limittest.Standalone(t)
	limit := shardlimit.Limit{Permits: 1_000_000_000, Per: time.Minute, Lease: 10 * time.Millisecond, Shards: 2}
	l := limittest.Limiter(t, f.Client(t), "ending", limit)
	ctx := t.Context()
	var granted atomic.Int64
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for k := range int64(20_000) {
				d, err := l.AllowN(ctx, 1+k%3*int64(i))
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				granted.Add(d.Granted)
			}
		})
	}
	callers.Wait()
	limittest.AwaitThat(t, "the log holds no more than was granted",
		func() bool { return limittest.Peek(t, l).Used == granted.Load() })
}

// Up to as many as are wanted includes what this process has leased.
func TestAllowUpToGetsWhatIsLeased(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 100, Per: 10 * time.Second, Lease: 5 * time.Second, Shards: 1}
		a, b := f.Limiter(t, limit), f.Limiter(t, limit)
		had := int64(0)
		for range 12 {
			limittest.MustGet(t, a, 1)
			had++
		}
		had += limittest.Exhaust(t, b, 100)
		for _, most := range []int64{1, 100} {
			d, err := a.AllowUpTo(t.Context(), most)
			if err != nil || !d.Allowed {
				t.Errorf("up to %d: %+v, %v", most, d, err)
			}
			had += d.Granted
		}
		if had != 100 {
			t.Errorf("%d of 100 were granted", had)
		}
	})
}
