package promises

import (
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

// Keys and limits whose names could run together share nothing.
func TestKeysWhoseNamesCouldRunTogetherDoNot(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	for _, name := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"a:b", "c}"}, {"a:b", "{c"}, {"1:a", "b"},
		{"1", "a:b"},
		{"a", "b/c"}, {"a/b", "c"}, {"a", "\x00\xff"}} {
		hasLeft(t, limittest.Family(t, c, name[0], shardlimit.PerHour(2)).Limiter(name[1]), 2)
	}
	for _, name := range []string{"a", "a:b:c", "1:a:b:c"} {
		hasLeft(t, limittest.Limiter(t, c, name, shardlimit.PerHour(2)), 2)
	}
}

// The limiter of a key comes without I/O, whatever the key is. One out of bounds is refused.
func TestKeysOutOfBoundsAreRefused(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	users := fl.Family(t, shardlimit.PerHour(5))
	posts[0].Proxy.Stall(true)
	defer posts[0].Proxy.Stall(false)
	atMost := sends(&posts[0].Takes)
	for i := range 1000 {
		if l := users.Limiter(fmt.Sprint(i)); l.Limit().Permits != 5 {
			t.Fatalf("%v", l.Limit())
		}
	}
	for _, n := range []int{0, shardlimit.MaxName + 1, 1 << 20} {
		l := users.Limiter(strings.Repeat("k", n))
		calls := limittest.Calls(l, 1, shardlimit.Decision{})
		for _, name := range []string{"Allow", "Wait", "Reset", "Peek"} {
			limittest.ErrorIs(t, calls[name](t.Context()), shardlimit.ErrInvalidName, name, n)
		}
	}
	before := limittest.HeapInUse()
	for i := range 64 {
		_ = users.Limiter(fmt.Sprint(i, strings.Repeat("k", 1<<20)))
	}
	if grown := limittest.HeapInUse() - before; grown > 16<<20 {
		t.Errorf("64 keys of a megabyte hold %d MiB", grown>>20)
	}
	atMost(t, 0)
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
	for name, takes := range map[string]int64{"Allow": 1, "AllowN": 3, "AllowUpTo": 3, "Set.Allow": 1, "Wait": 1,
		"Reserve": 3} {
		for a := shardlimit.SlidingLog; a <= shardlimit.FixedWindow; a++ {
			if a != shardlimit.SlidingLog && name != "Allow" {
				continue // what the others do differently is the way of the call, not the algorithm
			}
			t.Run(fmt.Sprint(name, " of ", a), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rested, _ := behindAMove(t, shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: a})
					time.Sleep(time.Minute)
					for _, l := range rested {
						call := limittest.Calls(l, takes, shardlimit.Decision{})[name]
						limittest.ErrorIs(t, call(limittest.Shortly(t, time.Second)), nil, l.Name())
						limittest.Uses(t, l, 1+takes)
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
