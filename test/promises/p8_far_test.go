package promises

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// P8: a node that is far away serves as many callers at once as one nearby, each after hardly
// more than the way. They call for one limit, or for many keys, and come back at once.
func TestFromAfarEverybodyIsServed(t *testing.T) {
	for _, way := range []time.Duration{10 * time.Millisecond, 25 * time.Millisecond} {
		limittest.RunInBubble(t, way.String(), 1, func(t *testing.T, f limittest.Fleet) {
			far, _ := f.Distant(t, way)
			limit := shardlimit.PerMinute(1_000_000)
			hot, users := far.Limiter(t, limit), far.Family(t, limit)
			for name, of := range map[string]func(i int) *shardlimit.Limiter{
				"a limit": func(int) *shardlimit.Limiter { return hot },
				"keys":    func(i int) *shardlimit.Limiter { return users.Limiter(fmt.Sprint("user ", i)) },
			} {
				limittest.MustGet(t, of(0), 1) // loads the script
				const times = 5
				began := time.Now()
				var all sync.WaitGroup
				for i := range 600 {
					all.Go(func() {
						for range times {
							if d, err := of(i).Allow(t.Context()); err != nil || !d.Allowed {
								t.Errorf("%s: %v, %v", name, d.Allowed, err)
							}
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took > times*way*3/2 {
					t.Errorf("%s: %d calls one after the other took %s, the way is %s", name, times, took, way)
				}
			}
		})
	}
}

// P8: that the first call of a process takes longer than those after it costs nobody anything. From
// so far that there is no time for two calls a key is answered all the same.
func TestFromAfarAFirstCallMayTakeLong(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		far, nodes := f.Distant(t, 60*time.Millisecond)
		l := far.Limiter(t, shardlimit.PerMinute(1_000_000))
		var all sync.WaitGroup
		for i := range 900 {
			all.Go(func() {
				if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
					t.Errorf("call %d: %v, %v", i, d.Allowed, err)
				}
			})
			time.Sleep(10 * time.Microsecond)
			nodes[0].Takes.Store(int64(30 * time.Millisecond))
		}
		all.Wait()
		nodes[0].Takes.Store(int64(60 * time.Millisecond))
		users := far.Family(t, shardlimit.PerMinute(10))
		limittest.MustGet(t, users.Limiter("ann"), 7)
		limittest.Denied(t, users.Limiter("ann"), 9)
	})
}
