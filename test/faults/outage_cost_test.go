package faults

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// While no node answers, whether it refuses or is silent, any number of calls costs neither memory
// nor goroutines: of a limit, and of the keys of a family.
func TestAnOutageCostsNeitherMemoryNorGoroutines(t *testing.T) {
	for name, down := range map[string]func(*limittest.ProxiedNode){
		"it refuses":   func(p *limittest.ProxiedNode) { p.Server.Kill() },
		"it is silent": func(p *limittest.ProxiedNode) { p.Server.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			f, posts := limittest.Proxied(t, 3)
			c := f.Client(t, func(c *shardlimit.Config) {
				// a message to a place of a record is waited for so long, and there is one in a
				// second
				c.OnOutage, c.CallTimeout = shardlimit.FailOpen, time.Second
			})
			limittest.RememberKeys(c, 1000)
			l, users := limittest.Limiter(t, c, "l", shardlimit.PerSecond(1000)),
				limittest.Family(t, c, "users", shardlimit.PerSecond(10))
			for _, p := range posts {
				down(p)
			}
			limittest.AwaitThat(t, "the breakers open", func() bool {
				d, err := l.Allow(t.Context())
				return err == nil && d.Degraded
			})
			calls := func(n int64) (bytes int64, goroutines int) {
				var next atomic.Int64
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						for i := next.Add(1); i <= n; i = next.Add(1) {
							d, err := l.Allow(t.Context())
							if i%2 == 0 {
								d, err = users.Limiter(strconv.FormatInt(i%5000, 10)).Allow(t.Context())
							}
							if err != nil || !d.Allowed {
								t.Errorf("%+v, %v", d, err)
								return
							}
						}
					})
				}
				wg.Wait()
				return limittest.HeapInUse(), runtime.NumGoroutine()
			}
			first, few := calls(int64(extent.Fewer(20_000)))
			last, many := calls(int64(extent.Fewer(100_000)))
			t.Logf("heap %d KB and then %d, goroutines %d and then %d", first>>10, last>>10, few, many)
			if last-first > 2<<20 { // 100 bytes for each of the calls more, under the race detector
				t.Errorf("the heap grew by %d bytes", last-first)
			}
			if many > few+24 { // what reads in the background at that moment
				t.Errorf("%d goroutines, then %d", few, many)
			}
			runtime.KeepAlive(users)
		})
	}
}
