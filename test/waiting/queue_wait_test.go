package waiting

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestAThousandWaitersNeedFewScriptCalls(t *testing.T) {
	t.Parallel()
	for _, limit := range []shardlimit.Limit{
		{Permits: 500, Per: 300 * time.Millisecond, Shards: 1},
		{Permits: 500, Per: 300 * time.Millisecond, Shards: 4},
		{Permits: 50, Per: 50 * time.Millisecond, Shards: 1},
		{Permits: 500, Per: time.Second, Shards: 1, Algorithm: shardlimit.LeakyBucket, Burst: 50},
		{Permits: 500, Per: time.Second, Shards: 4, Algorithm: shardlimit.LeakyBucket, Burst: 50},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			const waiters = 1000
			server := redistest.Standalone(t)
			f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "solo",
				Redis: limittest.Unhurried(server.ClientOption())}},
				Prefix: redistest.Prefix(t)}
			l := limittest.Limiter(t, f.Client(t), "l", limit)
			watcher := server.Client(t)
			before, begin := scriptCalls(t, watcher), history.Now()
			var record history.Recorder
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					if err := l.Wait(context.Background()); err != nil {
						t.Error(err)
					}
					record.Tally().Add(begin, history.Now(), 1)
				})
			}
			wg.Wait()
			calls := scriptCalls(t, watcher) - before
			took := time.Duration(history.Now() - begin)
			t.Logf("%d script calls for %d permits: %.3f each; %s", calls, waiters, float64(calls)/waiters,
				took.Round(time.Millisecond))
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
	if d, err := l.AllowN(t.Context(), limit.Permits); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	return l
}

func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 3, Per: time.Hour, Shards: 3})
	var mu sync.Mutex
	var order []int
	done := func(place int) func(error) {
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				place = -place
			}
			order = append(order, place)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	sizes := []int64{1, 3, 1, 2, 1} // of places 1 to 5
	for i, n := range sizes {
		whose := t.Context()
		if i == 2 {
			whose = ctx
		}
		joinLine(t, whose, l, n, done(i+1))
	}
	ended := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == n }
	}
	cancel()
	limittest.AwaitThat(t, "the third has left", ended(1))
	// Reset makes room for three permits each time: for the first, who leaves two
	// that the second cannot use; for the second; for the two behind it.
	want := []int{-3}
	for step, next := range [][]int{{1}, {2}, {4, 5}} {
		// What the line collects while Reset goes from shard to shard would be
		// forgotten in part, and more than three permits be there.
		limittest.AwaitThat(t, "the head of the line was denied", func() bool { return limittest.NotBefore(l) != 0 })
		if err := l.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = append(want, next...)
		limittest.AwaitThat(t, "the next ones are served", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) >= len(want)
		})
		mu.Lock()
		slices.Sort(order[len(want)-len(next):]) // those who are served together may return in any order
		if !slices.Equal(order, want) {
			t.Errorf("step %d: %v, want %v", step, order, want)
		}
		mu.Unlock()
	}
	if n := limittest.Waiting(l); n != 0 {
		t.Errorf("%d wait still", n)
	}
}

// What the line has heard may be older than the Reset that wakes it.
func TestAResetWhileTheLineAsksStrandsNobody(t *testing.T) {
	t.Parallel()
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 3, Per: time.Hour, Shards: 3})
	for round := range 40 {
		served := make(chan error, 2)
		for _, n := range []int64{1, 3} {
			joinLine(t, t.Context(), l, n, func(err error) { served <- err })
		}
		for range 2 { // the first is served, and while the second collects, there is another Reset
			if err := l.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-served:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(limittest.Patience):
				t.Fatalf("round %d: after %s still not served", round, limittest.Patience)
			}
		}
		limittest.AwaitThat(t, "what Reset forgot of the collection is used", func() bool {
			if _, err := l.AllowUpTo(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
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
		if err := <-errs; !errors.Is(err, reason) {
			t.Fatal(err)
		}
	}
	if n := limittest.Waiting(l); n != 0 {
		t.Errorf("%d wait still", n)
	}
	limittest.AwaitThat(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAHopelessDeadlineIsToldAtOnce(t *testing.T) {
	t.Parallel()
	l := exhausted(t, limittest.Standalone(t).Client(t), shardlimit.Limit{Permits: 4, Per: time.Hour, Shards: 2})
	hopeless := func(what string, n int64, deadline time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		err := l.WaitN(ctx, n)
		if !errors.Is(err, shardlimit.ErrWaitTooLong) || ctx.Err() != nil {
			t.Errorf("%s: %v, context: %v", what, err, ctx.Err())
		}
	}
	hopeless("nothing free before", 1, 10*time.Minute)
	hopeless("all of it", 4, 10*time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	joinLine(t, ctx, l, 4, func(err error) { left <- err })
	limittest.AwaitThat(t, "the head of the line was denied", func() bool { return limittest.NotBefore(l) != 0 })
	hopeless("behind others", 4, 90*time.Minute) // one window for them, another for us
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWaitForMoreThanAnyShardHas(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 100, Per: 200 * time.Millisecond, Shards: 10}
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l", limit)
	begin := history.Now()
	total := int64(0)
	for _, n := range []int64{60, 100, 35, 60, 100} {
		if err := l.WaitN(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if took := time.Duration(history.Now() - begin); took < time.Duration((total-1)/limit.Permits)*limit.Per {
		t.Errorf("%d permits in %s", total, took)
	}
	if err := l.WaitN(t.Context(), 101); !errors.Is(err, shardlimit.ErrExceedsLimit) {
		t.Errorf("more than there ever are: %v", err)
	}
}
