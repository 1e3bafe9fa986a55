package shardlimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestTryFailover(t *testing.T) {
	fl, servers := independent(t, 4)
	c := fl.client(t, patientFor(200*time.Millisecond), func(c *shardlimit.Config) { c.Failover = 2 * time.Second })
	l := limiter(t, c, "l", shardlimit.Limit{Permits: 1000, Per: time.Second, Shards: 4, Failover: true})
	settled(t, l)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var mu sync.Mutex
	granted, errs := 0, map[string]int{}
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				d, err := l.Allow(context.Background())
				mu.Lock()
				if err != nil {
					errs[err.Error()]++
				} else if d.Allowed {
					granted++
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	began := time.Now()
	for i := range 40 {
		time.Sleep(time.Second)
		mu.Lock()
		t.Logf("%v: %d granted, errors %v", time.Since(began).Round(time.Second), granted, errs)
		granted = 0
		clear(errs)
		mu.Unlock()
		switch i {
		case 2:
			servers[0].Kill()
			t.Log("killed")
		case 18:
			servers[0].Restart()
			t.Log("restarted")
		}
	}
	t.Logf("%+v", peek(t, l))
}
