package shardlimit_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// TestManyRemindersAreMadeByAFewGoroutines: a server forgets the shards of many limits of which a
// process holds permits, and answers slowly. All shards are reminded all the same.
func TestManyRemindersAreMadeByAFewGoroutines(t *testing.T) {
	const limits = 300
	synctest.Test(t, func(t *testing.T) {
		f, nodes := bubbledNodes(t, 1)
		client, another := f.client(t), f.client(t)
		all, others := make([]*shardlimit.Limiter, limits), make([]*shardlimit.Limiter, limits)
		for i := range all {
			name, limit := fmt.Sprint("l", i), shardlimit.Limit{Permits: 60, Per: time.Hour, Shards: 1}
			all[i], others[i] = limiter(t, client, name, limit), limiter(t, another, name, limit)
			upTo(t, all[i], 20)
		}
		time.Sleep(5 * time.Second)
		nodes[0].redis.Restart()
		for _, l := range others {
			upTo(t, l, 1)
		}
		nodes[0].stuck.Store(int64(20 * time.Millisecond))
		before, most := runtime.NumGoroutine(), 0
		for range 2000 {
			time.Sleep(10 * time.Millisecond)
			most = max(most, runtime.NumGoroutine())
		}
		if most > before+limits/3 {
			t.Errorf("%d goroutines, %d before", most, before)
		}
		nodes[0].stuck.Store(0)
		for _, l := range all {
			if s := peek(t, l).Shards[0]; s.Used != 20 {
				t.Fatalf("%d permits are in use, want 20", s.Used)
			}
		}
	})
}
