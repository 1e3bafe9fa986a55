package promises

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestKeysWhoseNamesCouldRunTogetherDoNot(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	limiters := []*shardlimit.Limiter{
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("b:c"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("c"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("c}"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("{c"),
		limittest.Family(t, c, "1:a", shardlimit.PerHour(2)).Limiter("b"),
		limittest.Family(t, c, "1", shardlimit.PerHour(2)).Limiter("a:b"),
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("b/c"),
		limittest.Family(t, c, "a/b", shardlimit.PerHour(2)).Limiter("c"),
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("\x00\xff"),
		limittest.Limiter(t, c, "a", shardlimit.PerHour(2)),
		limittest.Limiter(t, c, "a:b:c", shardlimit.PerHour(2)),
		limittest.Limiter(t, c, "1:a:b:c", shardlimit.PerHour(2)),
	}
	for i, l := range limiters {
		if got := limittest.Grants(t, l); got != 2 {
			t.Errorf("limiter %d (%s) had %d permits, want 2: it shares them with another", i, l.Name(), got)
		}
	}
}

// The limiter of a key comes without I/O, whatever the key is. One out of bounds is refused.
func TestKeysOutOfBoundsAreRefused(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	users := fl.Family(t, shardlimit.PerHour(5))
	posts[0].Proxy.Stall(true)
	defer posts[0].Proxy.Stall(false)
	sent := posts[0].Takes.Load()
	for i := range 1000 {
		if l := users.Limiter(fmt.Sprint(i)); l.Limit().Permits != 5 {
			t.Fatalf("%v", l.Limit())
		}
	}
	for _, n := range []int{0, shardlimit.MaxName + 1, 1 << 20} {
		l := users.Limiter(strings.Repeat("k", n))
		if _, err := l.Allow(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Allow on a key of %d bytes: %v", n, err)
		}
		if err := l.Wait(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Wait on a key of %d bytes: %v", n, err)
		}
		if err := l.Reset(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Reset on a key of %d bytes: %v", n, err)
		}
		if _, err := l.Peek(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Peek on a key of %d bytes: %v", n, err)
		}
	}
	before := limittest.HeapInUse()
	for i := range 64 {
		_ = users.Limiter(fmt.Sprint(i, strings.Repeat("k", 1<<20)))
	}
	if grown := limittest.HeapInUse() - before; grown > 16<<20 {
		t.Errorf("64 keys of a megabyte hold %d MiB", grown>>20)
	}
	if n := posts[0].Takes.Load() - sent; n != 0 {
		t.Errorf("%d script calls", n)
	}
	runtime.KeepAlive(users)
}

// churnKeys is how many keys TestMemoryStaysWhileKeysComeAndGo calls for. Ten million take some
// minutes: go test ./test/promises -run TestMemoryStaysWhileKeysComeAndGo -churn 10000000 -v
var churnKeys = flag.Int64("churn", 20_000, "keys that come and go")

// Keys that come and go leave nothing in the process.
func TestMemoryStaysWhileKeysComeAndGo(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	limittest.RememberKeys(c, 2_000)
	users := limittest.Family(t, c, "users", shardlimit.PerSecond(10))
	var next atomic.Int64
	call := func(upTo int64) (bytes int64) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for i := next.Add(1); i <= upTo && !t.Failed(); i = next.Add(1) {
					if d, err := users.Limiter(strconv.FormatInt(i, 10)).Allow(t.Context()); err != nil || !d.Allowed {
						t.Errorf("key %d: %+v, %v", i, d, err)
					}
				}
			})
		}
		wg.Wait()
		next.Store(upTo)
		return limittest.HeapInUse()
	}
	first := call(*churnKeys / 4)
	goroutines := runtime.NumGoroutine()
	last := call(*churnKeys)
	t.Logf("heap %d KB after %d keys, %d KB after %d; %d goroutines, then %d", first>>10, *churnKeys/4, last>>10,
		*churnKeys, goroutines, runtime.NumGoroutine())
	if n := limittest.Known(users); n != 0 || last-first > 1<<20 {
		t.Errorf("something of %d keys is kept, and the heap grew by %d bytes", n, last-first)
	}
	if runtime.NumGoroutine() > goroutines+8 {
		t.Errorf("%d goroutines, then %d", goroutines, runtime.NumGoroutine())
	}
	runtime.KeepAlive(users)
}

// behindAMove is eight processes that have each used a key of a family whose keys have moved since,
// and the family in another process.
func behindAMove(t *testing.T, limit shardlimit.Limit) (behind []*shardlimit.Limiter, users *shardlimit.Family) {
	f := limittest.Bubbled(t, 4)
	for i := range 8 {
		l := f.Family(t, limit).Limiter(fmt.Sprint("user ", i))
		limittest.MustGet(t, l, 1)
		behind = append(behind, l)
	}
	f.Nodes = limittest.Drained(f.Nodes, func(i int) bool { return i < 2 })
	users = f.Family(t, limit)
	limittest.Must(t, users.Rebalance(t.Context()))
	return behind, users
}

// The keys of a family moved to other nodes while a process rested. Its first call hears of that,
// and is served: what is free at the old shards is free.
func TestAProcessThatRestedIsServedWhereKeysAreNow(t *testing.T) {
	type call = func(context.Context, *shardlimit.Limiter) (shardlimit.Decision, error)
	for name, first := range map[string]call{
		"Allow": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.Allow(ctx)
		},
		"AllowN": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.AllowN(ctx, 3)
		},
		"AllowUpTo": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.AllowUpTo(ctx, 3)
		},
		"a set": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return limittest.Set(1, l).Allow(ctx)
		},
		"Acquire": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return l.Acquire(ctx, 1)
		},
		"Reserve": func(ctx context.Context, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			r, err := l.Reserve(ctx, 1)
			return shardlimit.Decision{Allowed: err == nil && r.Delay() == 0}, err
		},
	} {
		for a := shardlimit.SlidingLog; a <= shardlimit.FixedWindow; a++ {
			if a != shardlimit.SlidingLog && name != "Allow" {
				continue // what the others do differently is the way of the call, not the algorithm
			}
			t.Run(fmt.Sprint(name, " of ", a), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rested, _ := behindAMove(t, shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: a})
					time.Sleep(time.Minute)
					for i, l := range rested {
						if d, err := first(t.Context(), l); err != nil || !d.Allowed || d.Degraded {
							t.Errorf("key %d: %+v, %v", i, d, err)
						}
					}
				})
			})
		}
	}
}

// Keys of a family moved and were used no more, so lately that another process has no reason to
// read the record. The old shard tells its call, which makes a step of the key's move then: the new
// shards have forgotten theirs.
func TestACallFollowsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, users := behindAMove(t, shardlimit.Limit{Permits: 10, Per: 100 * time.Millisecond})
		for i := range behind {
			_, _ = users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context())
		}
		time.Sleep(2 * time.Second)
		for _, l := range behind {
			limittest.Served(t, l, 1)
		}
	})
}
