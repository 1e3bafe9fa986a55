package shardlimit_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Of grants that one reply brings, each says what is left after it: exactly one caller sees the
// quota used up.
func TestRemainingOfGrantsThatComeTogether(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *shardlimit.Limiter) (shardlimit.Decision, error){
		"Allow": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) { return l.Allow(t.Context()) },
		"AllowUpTo": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.AllowUpTo(t.Context(), 1)
		},
		"participant": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.As("me", 1).Allow(t.Context())
		},
	} {
		for _, algorithm := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter,
			shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket} {
			t.Run(fmt.Sprint(name, " ", algorithm), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, _ := bubbled(t, 1).distant(t, time.Millisecond)
					limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1, Algorithm: algorithm}
					if algorithm == shardlimit.TokenBucket || algorithm == shardlimit.LeakyBucket {
						limit.Burst = 10
					}
					l := limiter(t, f.client(t), "l", limit)
					var mu sync.Mutex
					var left []int64
					together(10, func(int) (shardlimit.Decision, error) { // the first alone, nine behind it
						d, err := call(t, l)
						if err != nil || !d.Allowed {
							t.Errorf("%+v, %v", d, err)
						}
						mu.Lock()
						defer mu.Unlock()
						left = append(left, d.Remaining)
						return d, err
					})
					slices.Sort(left)
					if !slices.Equal(left, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
						t.Errorf("%v are left", left)
					}
				})
			})
		}
	}
}

// On several shards it is what this process heard of, less what its own calls got: never more than
// there is while nobody else calls, and all of it once every shard was heard from.
func TestRemainingOfGrantsOnSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := bubbled(t, 2).distant(t, time.Millisecond)
		l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4})
		if d, err := l.AllowN(t.Context(), 60); err != nil || d.Remaining > 40 {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err := l.AllowUpTo(t.Context(), 30); err != nil || d.Remaining != 10 {
			t.Errorf("%+v, %v", d, err)
		}
		var mu sync.Mutex
		var left []int64
		s := together(10, func(int) (shardlimit.Decision, error) {
			d, err := l.Allow(t.Context())
			mu.Lock()
			defer mu.Unlock()
			left = append(left, d.Remaining)
			return d, err
		})
		slices.Sort(left)
		if s.allowed != 10 || left[0] != 0 || left[9] > 9 {
			t.Errorf("%d allowed, %v are left", s.allowed, left)
		}
	})
}
