package peers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The part of redisson_test.go that is about callers who wait.

// No issue of Redisson's; peterkhayes/rolling-rate-limiter #15 describes it: every waiter is told
// the same delay, comes back at the same time, and all but one in vain. 1 000 waiters took 51
// script calls per permit.
func TestRedissonWaitersDoNotComeBackAllAtOnce(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		f, post := f.BehindProxy(t)
		const waiters = 300
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 30, Per: 100 * time.Millisecond})
		sent := post.Takes.Load()
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := post.Takes.Load() - sent; n > 2*waiters {
			t.Errorf("%d script calls for %d permits", n, waiters)
		}
	})
}

// No issue: a caller that waited for 5 permits beside callers for one got nothing in a minute and
// 301 tries.
func TestRedissonACallerForManyPermitsIsNotStarved(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		t.Run("by callers of its process", func(t *testing.T) {
			l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 40, Per: time.Second})
			if err := l.WaitN(t.Context(), 11); err != nil {
				t.Fatal(err)
			}
			order := make(chan int64, 31)
			var wg sync.WaitGroup
			want := func(n int64) {
				wg.Go(func() {
					if err := l.WaitN(t.Context(), n); err != nil {
						t.Error(err)
					}
					order <- n
				})
			}
			want(30)
			limittest.AwaitThat(t, "it is in line", func() bool { return limittest.Waiting(l) == 1 || len(order) > 0 })
			for range 30 { // 29 are free, which is too few for the first
				want(1)
			}
			wg.Wait()
			ahead := 0
			for n := <-order; n == 1; n = <-order {
				ahead++
			}
			if ahead > 10 { // those that the same release served may have told the test first
				t.Errorf("%d callers that came later were served before", ahead)
			}
		})
		t.Run("by callers of another process", func(t *testing.T) {
			const window = 600 * time.Millisecond
			both := limittest.AsOne(f.Group(t, 2, "l2", shardlimit.Limit{Permits: 10, Per: window}))
			ctx, stop := context.WithCancel(t.Context())
			var denied atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil { // faster than permits come back, and they come back one by one
					d, err := both[1].Allow(context.Background())
					if err != nil {
						t.Error(err)
					}
					if !d.Allowed {
						denied.Store(true)
					}
					limittest.Pause(ctx, window/15)
				}
			})
			limittest.AwaitThat(t, "nothing is free", denied.Load)
			if err := both[0].WaitN(limittest.Shortly(t, limittest.Patience), 5); err != nil {
				t.Error(err)
			}
			stop()
			wg.Wait()
		})
	})
}

// #4037: a timeout of -1 ms meant "for ever".
func TestRedisson4037AnExpiredTimeoutDoesNotWait(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(1))
		expired := func(state string) {
			for _, timeout := range []time.Duration{-time.Millisecond, -time.Second, 0} {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, %s: %v", state, timeout, err)
				}
				cancel()
			}
		}
		expired("while a permit is free")
		if st := limittest.Peek(t, l); st.Used != 0 {
			t.Errorf("a call whose time was over took a permit: %+v", st)
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		expired("while none is free")
		if err := l.Wait(unnoticed{limittest.Shortly(t, limittest.Patience)}); !errors.Is(err,
			shardlimit.ErrWaitTooLong) {
			t.Errorf("its timeout has passed, but its context has not ended yet: %v", err)
		}
	})
}

// unnoticed is a context whose deadline has just passed, but whose timer is late.
type unnoticed struct{ context.Context }

func (unnoticed) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// #1524, #1659 (acquire never returned), #6959 (a burst of waiters overflowed the stack): everybody
// who waits is served.
func TestRedisson1524And6959WaitersAreServed(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 500, Per: 50 * time.Millisecond})
		ctx := limittest.Shortly(t, limittest.Patience)
		var wg sync.WaitGroup
		for range 3000 {
			wg.Go(func() {
				if err := l.Wait(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}
