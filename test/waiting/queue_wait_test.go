package waiting

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestAThousandWaitersNeedFewScriptCalls(t *testing.T) {
	for limit, waiters := range map[shardlimit.Limit]int64{
		{Permits: 500, Per: 300 * time.Millisecond, Shards: 4}:                                    1000,
		{Permits: 50, Per: 50 * time.Millisecond, Shards: 1}:                                      1000,
		{Permits: 500, Per: time.Second, Shards: 4, Algorithm: shardlimit.LeakyBucket, Burst: 50}: 200,
	} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			l := f.Limiter(t, limit)
			before, begun := f.Bubble[0].Calls.Load(), time.Now()
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					limittest.ErrorIs(t, l.Wait(context.Background()), nil)
				})
			}
			wg.Wait()
			calls, took := f.Bubble[0].Calls.Load()-before, time.Since(begun)
			t.Logf("%s: %d script calls for %d permits, in %s", limit, calls, waiters, took)
			if calls > waiters*11/10 {
				t.Errorf("%d script calls for %d permits", calls, waiters)
			}
			if windows := (waiters - 1) / limit.Permits; took < time.Duration(windows)*limit.Per {
				t.Errorf("%d permits in %s", waiters, took)
			}
		})
	}
}

// exhausted is a limiter with nothing left, and nothing coming back for long.
func exhausted(t *testing.T, c *shardlimit.Client, limit shardlimit.Limit) *shardlimit.Limiter {
	t.Helper()
	l := limittest.Limiter(t, c, "l", limit)
	limittest.MustGet(t, l, limit.Permits)
	return l
}

// What the line has heard may be older than the Reset that wakes it.
func TestAResetWhileTheLineAsksStrandsNobody(t *testing.T) {
	t.Parallel()
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 3, Per: time.Hour, Shards: 3})
	for round := range 40 {
		served := make(chan error, 2)
		for _, n := range []int64{1, 3} {
			joinLine(t, l, func() { served <- l.WaitN(t.Context(), n) })
		}
		for range 2 { // the first is served, and while the second collects, there is another Reset
			limittest.Must(t, l.Reset(t.Context()))
			select {
			case err := <-served:
				limittest.Must(t, err)
			case <-time.After(limittest.Patience):
				t.Fatalf("round %d: after %s still not served", round, limittest.Patience)
			}
		}
		limittest.AwaitThat(t, "what Reset forgot of the collection is used", func() bool {
			limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), 3)))
			st, err := l.Peek(t.Context())
			return err == nil && st.Remaining == 0
		})
	}
}

func TestCancelledWaitersLeaveNoGoroutine(t *testing.T) {
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2})
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the caller's own reason")
	errs := make(chan error, 200)
	for range cap(errs) {
		go func() { errs <- l.WaitN(ctx, 1+int64(len(errs)%3)) }()
	}
	limittest.AwaitThat(t, "all wait", func() bool { return limittest.Waiting(l) == cap(errs) })
	cancel(reason)
	for range cap(errs) {
		limittest.ErrorIs(t, <-errs, reason)
	}
	if n := limittest.Waiting(l); n != 0 {
		t.Errorf("%d wait still", n)
	}
	limittest.AwaitThat(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
}

// unnoticed is a context whose deadline has just passed, but whose timer is late.
type unnoticed struct{ context.Context }

func (unnoticed) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestAHopelessDeadlineIsToldAtOnce(t *testing.T) {
	t.Parallel()
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 4, Per: time.Hour, Shards: 2})
	hopeless := func(what string, n int64, deadline time.Duration) {
		t.Helper()
		ctx := limittest.Shortly(t, deadline)
		err := l.WaitN(ctx, n)
		if !errors.Is(err, shardlimit.ErrWaitTooLong) || ctx.Err() != nil {
			t.Errorf("%s: %v, context: %v", what, err, ctx.Err())
		}
	}
	hopeless("nothing free before", 1, 10*time.Minute)
	hopeless("all of it", 4, 10*time.Minute)
	if err := l.Wait(unnoticed{limittest.Shortly(t, limittest.Patience)}); !errors.Is(err, shardlimit.ErrWaitTooLong) {
		t.Errorf("its time has passed, but its context has not ended yet: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	joinLine(t, l, func() { left <- l.WaitN(ctx, 4) })
	limittest.AwaitThat(t, "the head of the line was denied", func() bool { return limittest.NotBefore(l) != 0 })
	hopeless("behind others", 4, 90*time.Minute) // one window for them, another for us
	cancel()
	limittest.ErrorIs(t, <-left, context.Canceled)
}

// Callers that give up at the moment when a permit comes do not take it with them: four callers
// with little patience get every permit that there is, through a Set of one as through its Limiter.
func TestNoPermitIsLostToCallersWhoGiveUp(t *testing.T) {
	const every, lasts = 60 * time.Millisecond, 2 * time.Second
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
				l := f.Limiter(t, limit)
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
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if wait(ctx) == nil {
					served.Add(1)
				}
				cancel()
				time.Sleep(time.Millisecond) // of the bubble: who is refused at once comes again
			}
		})
	}
	callers.Wait()
	return served.Load()
}

// Calls that wait for each other in a process wait, or it says that it has too many, which the
// outage policy answers. Reservations that wait for their turn to collect are refused in the end.
// Nodes that answer are not taken for away, and nothing is given away.
func TestAQueueInTheProcessIsNoOutage(t *testing.T) {
	const million = 1_000_000
	allow := func(n int64) func(context.Context, *shardlimit.Limiter, int) (shardlimit.Decision, error) {
		return func(ctx context.Context, l *shardlimit.Limiter, _ int) (shardlimit.Decision, error) {
			return l.AllowN(ctx, n)
		}
	}
	refused := shardlimit.Decision{RetryAfter: time.Second}
	tenant := func(ctx context.Context, l *shardlimit.Limiter, i int) (shardlimit.Decision, error) {
		d, err := l.As(fmt.Sprint("tenant", i), 1).Allow(ctx)
		if errors.Is(err, shardlimit.ErrOverloaded) || d.Degraded {
			return refused, nil
		}
		return d, err
	}
	reserve := func(ctx context.Context, l *shardlimit.Limiter, _ int) (shardlimit.Decision, error) {
		r, err := l.Reserve(ctx, 300_000)
		if errors.Is(err, shardlimit.ErrTooFarAhead) || errors.Is(err, shardlimit.ErrWaitTooLong) {
			return refused, nil
		}
		return shardlimit.Decision{Allowed: true, Degraded: err == nil && r.Degraded()}, err
	}
	for _, c := range []struct {
		name    string
		rtt     time.Duration
		shards  int
		callers int
		call    func(ctx context.Context, l *shardlimit.Limiter, i int) (shardlimit.Decision, error)
		allowed int // at least
	}{
		{"a thousand tenants", 5 * time.Millisecond, 1, 1000, tenant, 1000},
		{"four thousand tenants on a slow net", 20 * time.Millisecond, 1, 4000, tenant, 300},
		{"large calls on a slow net", 20 * time.Millisecond, 8, 200, allow(150_000), 2},
		{"large calls, no distance", 0, 8, 200, allow(150_000), 6},
		{"reservations", 20 * time.Millisecond, 8, 50, reserve, 1},
	} {
		for _, policy := range []shardlimit.OutagePolicy{shardlimit.FailClosed, shardlimit.FailOpen} {
			limittest.RunInBubble(t, fmt.Sprint(c.name, ", ", policy), 2, func(t *testing.T, f limittest.Fleet) {
				f, _ = f.Distant(t, c.rtt)
				l := f.Limiter(t,
					shardlimit.Limit{Permits: million, Per: time.Minute, Shards: c.shards}, limittest.OnOutage(policy))
				s := limittest.Together(c.callers, func(i int) (shardlimit.Decision, error) {
					return c.call(t.Context(), l, i)
				})
				if d, err := l.AllowUpTo(t.Context(), 1); err != nil || d.Degraded {
					t.Errorf("the next call: %+v, %v", d, err)
				}
				if s.Failed+s.Degraded > 0 || s.Allowed < c.allowed || s.Permits > million {
					t.Errorf("%d allowed, %d denied, %d degraded, %d failed: %v", s.Allowed, s.Denied, s.Degraded,
						s.Failed, s.Err)
				}
				if s.Denied > 0 && s.Least < time.Millisecond {
					t.Errorf("one is denied and told to come back after %s", s.Least)
				}
				if s.Slowest > 110*time.Millisecond {
					t.Errorf("a call took %s", s.Slowest)
				}
			})
		}
	}
}
