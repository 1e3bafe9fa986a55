package promises

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A node that answers late, but answers, is asked less by callers that come together: the shorter
// queue wins. It keeps its permits: who asks for more than the others have gets them.
func TestASlowNodeIsAskedLessAndKeepsItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 4).Distant(t, time.Millisecond)
		limit := shardlimit.Limit{Permits: 400_000, Per: time.Second, Shards: 4}
		l := limittest.Limiter(t, f.Client(t), "l", limit)
		limittest.Settled(t, l)
		slow := net[0]
		slow.Takes.Store(int64(40 * time.Millisecond))
		var took [16][200]time.Duration
		var callers sync.WaitGroup
		for c := range took {
			callers.Go(func() {
				for i := range took[c] {
					began := time.Now()
					if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
						t.Errorf("%+v, %v", d, err)
					}
					took[c][i] = time.Since(began)
				}
			})
		}
		callers.Wait()
		quick := 0
		for c := range took {
			for _, d := range took[c] {
				if d <= 3*time.Millisecond {
					quick++
				}
			}
		}
		if all := len(took) * len(took[0]); quick < all*9/10 {
			t.Errorf("%d of %d calls were not held up by it", quick, all)
		}
		time.Sleep(time.Second)
		if got := limittest.Exhaust(t, l, limit.Permits); got != limit.Permits {
			t.Errorf("%d of %d permits while it is slow", got, limit.Permits)
		}
	})
}
