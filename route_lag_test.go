package shardlimit_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A node that answers late, but answers, loses its calls to the others. It keeps its permits: who
// asks for more than the others have gets them.
func TestASlowNodeLosesItsCallsAndKeepsItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := bubbled(t, 4).distant(t, time.Millisecond)
		limit := shardlimit.Limit{Permits: 4000, Per: time.Second, Shards: 4}
		l := limiter(t, f.client(t), "l", limit)
		settled(t, l)
		slow := net[0]
		calls := func() (median, p98 time.Duration, there int64) {
			before := slow.calls.Load()
			var took []time.Duration
			for range 1000 { // one after another
				began := time.Now()
				if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				took = append(took, time.Since(began))
				time.Sleep(4 * time.Millisecond)
			}
			slices.Sort(took)
			return took[500], took[980], slow.calls.Load() - before
		}
		_, _, there := calls()
		if there < 100 {
			t.Fatalf("%d of 1000 calls to it while it is as fast as others", there)
		}
		slow.takes.Store(int64(40 * time.Millisecond))
		median, p98, there := calls()
		t.Logf("slow: median %v, p98 %v, %d calls to it", median, p98, there)
		if median > 2*time.Millisecond || p98 > 2*time.Millisecond || there > 50 {
			t.Errorf("median %v, p98 %v, %d calls to it", median, p98, there)
		}
		time.Sleep(time.Second)
		if got := all(t, l, limit.Permits); got != limit.Permits {
			t.Errorf("%d of %d permits while it is slow", got, limit.Permits)
		}
		slow.takes.Store(int64(time.Millisecond))
		time.Sleep(6 * time.Second)
		calls()
		if _, _, there = calls(); there < 100 {
			t.Errorf("%d of 1000 calls to it when it is fast again", there)
		}
	})
}
