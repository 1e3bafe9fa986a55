package shardlimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// The windows of a FixedWindow begin at multiples of its length on the clock, on every node at the same time: the nodes of
// these tests have one clock.

func TestFixedWindowsEndAtTheClocksEdgeOnEveryNode(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window = 31 * 24 * time.Hour
			l := limiter(t, place(t).client(t), "l", shardlimit.Limit{Permits: 80, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16})
			begin := time.Now()
			if d, err := l.AllowN(t.Context(), 80); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			asked := time.Now()
			d, err := l.Allow(t.Context())
			if err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			// The first of the shards that has permits again, and the last that is free again.
			for what, in := range map[string]time.Duration{"RetryAfter": d.RetryAfter, "ResetAfter": d.ResetAfter} {
				edge := asked.Add(in)
				off := time.Duration((edge.UnixNano()+int64(window)/2)%int64(window)) - window/2
				if took := time.Since(begin) + time.Millisecond; off < -took || off > took {
					t.Errorf("%s tells of %s, which is %s after an edge", what, edge, off)
				}
			}
		})
	}
}

func TestNoFixedWindowHoldsMoreThanTheLimitOnAllNodes(t *testing.T) {
	for _, name := range []string{"embedded", "four nodes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const permits, window = 60, 250 * time.Millisecond
			f := places[name](t)
			limit := shardlimit.Limit{Permits: permits, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16}
			var mu sync.Mutex
			held := make(map[int64]int64) // by window: the permits of calls that began and ended in it
			ctx, stop := context.WithTimeout(t.Context(), 6*window)
			defer stop()
			var wg sync.WaitGroup
			for _, l := range f.group(t, 2, "l", limit) {
				for range 3 {
					wg.Go(func() {
						for ctx.Err() == nil {
							from := time.Now().UnixNano() / int64(window)
							d, err := l.AllowUpTo(context.Background(), 3)
							if err != nil {
								t.Error(err)
								return
							}
							if to := time.Now().UnixNano() / int64(window); from == to {
								mu.Lock()
								held[to] += d.Granted
								mu.Unlock()
							}
							if !d.Allowed {
								sleepOr(ctx, time.Millisecond)
							}
						}
					})
				}
			}
			wg.Wait()
			most := int64(0)
			for _, n := range held {
				most = max(most, n)
			}
			if most > permits || most == 0 {
				t.Errorf("a window of %d permits held %d: %v", permits, most, held)
			}
		})
	}
}
