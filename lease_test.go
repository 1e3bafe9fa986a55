package shardlimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestLeasesNeverExceedTheLimit has several processes with leases compete for a
// limit, and checks every decision against it.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			limit := shardlimit.Limit{Permits: 2000, Per: 200 * time.Millisecond, Lease: 20 * time.Millisecond, Shards: shards}
			f := standalone(t)
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			var recorder history.Recorder
			var wg sync.WaitGroup
			for range 3 {
				l := limiter(t, f.client(t), "leased", limit)
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
								tally.Add(begin, history.Now(), d.Granted)
							} else if !pause(ctx, d.RetryAfter) {
								return
							}
						}
					})
				}
			}
			wg.Wait()
			ops := recorder.Ops()
			if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
				t.Errorf("%d permits in one window, the limit is %d: %+v", worst.Permits, limit.Permits, worst)
			}
			if len(ops) < int(limit.Permits) {
				t.Errorf("only %d decisions: the limit was not put under pressure", len(ops))
			}
		})
	}
}

// pause waits as long as it was told to, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A lease is there to answer without Redis.
func TestLeaseAnswersManyCallsWithFewScripts(t *testing.T) {
	server := redistest.Standalone(t)
	f := fleet{nodes: []shardlimit.Node{{Name: "solo", Redis: server.ClientOption()}}, prefix: redistest.Prefix(t)}
	limit := shardlimit.Limit{Permits: 100_000, Per: time.Minute, Lease: 30 * time.Second, Shards: 1}
	l := limiter(t, f.client(t), "held", limit)
	watcher := server.Client(t)
	before := scriptCalls(t, watcher)
	const calls = 2000
	for range calls {
		if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if scripts := scriptCalls(t, watcher) - before; scripts > calls/20 {
		t.Errorf("%d calls took %d scripts", calls, scripts)
	}
}

func TestLeaseReturnsWhatWasNotUsed(t *testing.T) {
	f := standalone(t)
	limit := shardlimit.Limit{Permits: 10_000, Per: time.Minute, Lease: 200 * time.Millisecond, Shards: 1}
	l := limiter(t, f.client(t), "returned", limit)
	ctx := t.Context()
	var granted int64
	for range 200 { // enough for the lease to grow beyond what is used
		d, err := l.Allow(ctx)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		granted++
	}
	state := eventually(t, func() (shardlimit.State, bool) {
		s, err := l.Peek(ctx)
		return s, err == nil && s.Used == granted
	})
	if state.Used != granted {
		t.Errorf("%d permits were used, the log holds %d", granted, state.Used)
	}
}

func TestLeaseDecisionsCanBeRefunded(t *testing.T) {
	f := standalone(t)
	limit := shardlimit.Limit{Permits: 1000, Per: time.Minute, Lease: 100 * time.Millisecond, Shards: 4}
	l := limiter(t, f.client(t), "refunded", limit)
	ctx := t.Context()
	for range 300 {
		d, err := l.Allow(ctx)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		for range 2 { // the second does nothing
			if err := l.Refund(ctx, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	state := eventually(t, func() (shardlimit.State, bool) {
		s, err := l.Peek(ctx)
		return s, err == nil && s.Used == 0
	})
	if state.Used != 0 {
		t.Errorf("everything was refunded, the log holds %d", state.Used)
	}
}

// eventually polls until the condition holds, for at most ten seconds, and
// returns what it saw last.
func eventually[T any](tb testing.TB, look func() (T, bool)) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		v, ok := look()
		if ok || !pause(ctx, 5*time.Millisecond) {
			return v
		}
	}
}
