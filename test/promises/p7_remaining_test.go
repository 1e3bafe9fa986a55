package promises

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
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
					f, _ := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
					limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1, Algorithm: algorithm}
					if algorithm == shardlimit.TokenBucket || algorithm == shardlimit.LeakyBucket {
						limit.Burst = 10
					}
					l := limittest.Limiter(t, f.Client(t), "l", limit)
					var mu sync.Mutex
					var left []int64
					limittest.Together(10, func(int) (shardlimit.Decision, error) { // the first alone, nine behind it
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
		f, _ := limittest.Bubbled(t, 2).Distant(t, time.Millisecond)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4})
		if d, err := l.AllowN(t.Context(), 60); err != nil || d.Remaining > 40 {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err := l.AllowUpTo(t.Context(), 30); err != nil || d.Remaining != 10 {
			t.Errorf("%+v, %v", d, err)
		}
		var mu sync.Mutex
		var left []int64
		s := limittest.Together(10, func(int) (shardlimit.Decision, error) {
			d, err := l.Allow(t.Context())
			mu.Lock()
			defer mu.Unlock()
			left = append(left, d.Remaining)
			return d, err
		})
		slices.Sort(left)
		if s.Allowed != 10 || left[0] != 0 || left[9] > 9 {
			t.Errorf("%d allowed, %v are left", s.Allowed, left)
		}
	})
}

// A shard that was not heard from has its share: who begins is not told that little is left, and
// who was granted the last of one shard that others are empty.
func TestRemainingOfAFewShardsIsThatOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 4).Distant(t, time.Millisecond)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4})
		for i := range int64(100) {
			d, err := l.Allow(t.Context())
			if err != nil || !d.Allowed || d.Remaining != 99-i {
				t.Fatalf("call %d: %+v, %v", i, d, err)
			}
			if last := i == 99; (d.NextAfter > 0) != last || d.NextAfter > d.ResetAfter {
				t.Errorf("call %d: the next in %s, all in %s", i, d.NextAfter, d.ResetAfter)
			}
		}
		if d, err := l.Allow(t.Context()); err != nil || d.Allowed || d.Remaining != 0 || d.NextAfter != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		other := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4})
		if d, err := other.Allow(t.Context()); err != nil || d.Allowed || d.Remaining != 0 {
			t.Errorf("another process: %+v, %v", d, err)
		}
		time.Sleep(time.Hour) // all is free again, and nobody was asked
		if d, err := l.Allow(t.Context()); err != nil || !d.Allowed || d.Remaining != 99 {
			t.Errorf("after a rest: %+v, %v", d, err)
		}
	})
}

// When the last permit was granted it is told when there is one again: then, and not before.
func TestWhenThereIsAPermitAgain(t *testing.T) {
	for _, algorithm := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter,
		shardlimit.FixedWindow, shardlimit.TokenBucket} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
			l := limittest.Limiter(t, f.Client(t), "l",
				shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1, Algorithm: algorithm,
					Burst: bursts(algorithm, 10)})
			var d shardlimit.Decision
			for d.Remaining = 1; d.Remaining > 0; {
				var err error
				if d, err = l.Allow(t.Context()); err != nil || !d.Allowed {
					t.Fatalf("%v: %+v, %v", algorithm, d, err)
				}
				time.Sleep(time.Second / 10)
			}
			early := d.NextAfter - time.Second/10 - time.Second/5
			time.Sleep(early)
			if denied, err := l.Allow(t.Context()); err != nil || denied.Allowed {
				t.Errorf("%v: %s before the time: %+v, %v", algorithm, time.Second/5, denied, err)
			}
			time.Sleep(time.Second / 5)
			if again, err := l.Allow(t.Context()); err != nil || !again.Allowed {
				t.Errorf("%v: after %s: %+v, %v", algorithm, d.NextAfter, again, err)
			}
		})
	}
}

// bursts is the Burst of a limit, 0 where the algorithm has none.
func bursts(a shardlimit.Algorithm, n int64) int64 {
	if a == shardlimit.TokenBucket || a == shardlimit.LeakyBucket {
		return n
	}
	return 0
}

// What lies on a node that is away is not there for anybody.
func TestRemainingIsWithoutNodesThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := limittest.Bubbled(t, 2).Distant(t, time.Millisecond)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
		if d, err := l.Allow(t.Context()); err != nil || d.Remaining != 99 {
			t.Fatalf("%+v, %v", d, err)
		}
		nodes[1].Stalled.Store(true)
		left := int64(100)
		for range 20 { // until it has failed often enough to be left alone
			if d, err := l.AllowN(t.Context(), 60); err == nil && d.Allowed { // more than one of them has
				t.Fatalf("%+v", d)
			}
			d, err := l.Allow(t.Context())
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			if left = d.Remaining; left < 50 {
				break
			}
		}
		if left >= 50 {
			t.Errorf("%d remain, half of the limit is away", left)
		}
	})
}
