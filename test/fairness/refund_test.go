package fairness

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Who gives back half of what it takes keeps as much as the others.
func TestRefundsAreNotChargedForGood(t *testing.T) {
	synctest.Test(t, givesBack) // a machine that stalls would let the giver come late
}

func givesBack(t *testing.T) {
	limit := shardlimit.Limit{Permits: 400, Per: 500 * time.Millisecond, Shards: 1}
	l := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "l", limit)
	var all []*demander
	for i := range 4 {
		all = append(all, &demander{limiter: l.As(fmt.Sprint("tenant-", i), 1), rate: 600})
	}
	const warmUp, measured = 1500 * time.Millisecond, 2 * time.Second
	var kept int64
	var wg sync.WaitGroup
	begin := time.Now()
	wg.Go(func() {
		for giver, grants := l.As("giver", 1), 0; time.Since(begin) < warmUp+measured; time.Sleep(time.Millisecond) {
			d, err := giver.Allow(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if d.Allowed {
				if grants++; grants%2 == 0 {
					if err := giver.Settle(t.Context(), d, 0); err != nil {
						t.Error(err)
					}
				} else if time.Since(begin) > warmUp {
					kept++
				}
			}
		}
	})
	var record history.Recorder
	contend(t, warmUp, measured, &record, all...)
	wg.Wait()
	part := int64(320)
	t.Logf("the one that gives back kept %d, its part is %d", kept, part)
	if kept < part*7/10 {
		t.Errorf("the one that gives back kept %d, its part is %d", kept, part)
	}
}
