package promises

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A key that this process forgot still counts what it used: the shard has it.
func TestAForgottenKeyHasUsedWhatItUsed(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	limittest.RememberKeys(c, 100)
	users := limittest.Family(t, c, "users", shardlimit.PerHour(2))
	call := func(from, to int, allowed bool) {
		for i := from; i < to; i++ {
			d, err := users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context())
			if err != nil || d.Allowed != allowed {
				t.Errorf("key %d: %+v, %v", i, d, err)
			}
		}
	}
	call(0, 300, true)
	call(0, 10, true)
	call(0, 10, false)
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
	if last-first > 1<<20 {
		t.Errorf("the heap grew by %d bytes", last-first)
	}
	if runtime.NumGoroutine() > goroutines+8 {
		t.Errorf("%d goroutines, then %d", goroutines, runtime.NumGoroutine())
	}
	runtime.KeepAlive(users)
}
