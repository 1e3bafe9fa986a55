package waiting

import (
	"context"
	"fmt"
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
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			limit := shardlimit.Limit{Permits: 2000, Per: 200 * time.Millisecond, Lease: 20 * time.Millisecond,
				Shards: shards}
			f := limittest.Standalone(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var granted atomic.Int64
			var recorder history.Recorder
			var wg sync.WaitGroup
			for range 3 {
				l := limittest.Limiter(t, f.Client(t), "leased", limit)
				for range 4 {
					tally := recorder.Tally()
					wg.Go(func() {
						for ctx.Err() == nil {
							begin := history.Now()
							d, err := l.Allow(context.Background())
							if err != nil {
								t.Error(err)
								return
							}
							if d.Allowed {
								granted.Add(d.Granted)
								tally.Add(begin, history.Now(), d.Granted)
							} else if !limittest.Pause(ctx, d.RetryAfter) {
								return
							}
						}
					})
				}
			}
			limittest.Pause(ctx, 1500*time.Millisecond) // how long they work; nothing is right because of it
			limittest.AwaitThat(t, "more than the limit was granted",
				func() bool { return granted.Load() > limit.Permits })
			cancel()
			wg.Wait()
			ops := recorder.Ops()
			if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
				t.Errorf("%d permits in one window, the limit is %d: %+v", worst.Permits, limit.Permits, worst)
			}
		})
	}
}

// A lease is there to answer without Redis.
func TestLeaseAnswersManyCallsWithFewScripts(t *testing.T) {
	f, posts := limittest.Proxied(t, 1)
	limit := shardlimit.Limit{Permits: 100_000, Per: time.Minute, Lease: 30 * time.Second, Shards: 1}
	l := limittest.Limiter(t, f.Client(t), "held", limit)
	before := posts[0].Takes.Load()
	const calls = 2000
	for range calls {
		limittest.MustGet(t, l, 1)
	}
	if scripts := posts[0].Takes.Load() - before; scripts == 0 || scripts > calls/20 {
		t.Errorf("%d calls took %d scripts", calls, scripts)
	}
}

// held is how many permits the process holds: what the log has beyond what was granted.
func held(t *testing.T, l *shardlimit.Limiter, granted int64) int64 {
	t.Helper()
	s, err := l.Peek(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Used - granted
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
	if rest := eventually(t, func() (int64, bool) {
		rest := held(t, l, granted.Load())
		return rest, rest == 0
	}); rest != 0 {
		t.Errorf("%d permits were used, the log holds %d more", granted.Load(), rest)
	}
}

// Up to as many as are wanted includes what this process has leased.
func TestAllowUpToGetsWhatIsLeased(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 100, Per: 10 * time.Second, Lease: 5 * time.Second, Shards: 1}
		a, b := limittest.Limiter(t, f.Client(t), "l", limit), limittest.Limiter(t, f.Client(t), "l", limit)
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
