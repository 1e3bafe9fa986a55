package waiting

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The log tells once that batches leave a part of each shard unused, and which would fit.
func TestBatchesThatDoNotFitAreToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		processes   int
		batch, told int64
		limit       shardlimit.Limit
	}{
		"do not fit":      {2, 50, 1, shardlimit.Limit{Shards: 4}},
		"fit":             {2, 41, 0, shardlimit.Limit{Shards: 4}},
		"alone":           {1, 50, 0, shardlimit.Limit{Shards: 4}},
		"one shard":       {2, 50, 0, shardlimit.Limit{Shards: 1}},
		"of its own":      {2, 50, 0, shardlimit.Limit{Shards: 4, Scope: shardlimit.PerParticipant}},
		"of token bucket": {2, 50, 0, shardlimit.Limit{Shards: 4, Algorithm: shardlimit.TokenBucket}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.limit.Permits, c.limit.Per = 500, time.Second
				f := limittest.Bubbled(t, 1)
				log, granted := make([]bytes.Buffer, c.processes), atomic.Int64{}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for i := range c.processes {
					l := limittest.Limiter(t, f.Client(t, func(cfg *shardlimit.Config) {
						cfg.Logger = slog.New(slog.NewTextHandler(&log[i], nil))
					}), "l", c.limit)
					for range 5 {
						all.Go(func() {
							for l.WaitN(ctx, c.batch) == nil {
								granted.Add(c.batch)
							}
						})
					}
				}
				time.Sleep(20 * time.Second) // until each knows of the other
				before := granted.Load()
				time.Sleep(10 * time.Second)
				used := granted.Load() - before
				cancel()
				all.Wait()
				t.Logf("%d of 5000 permits", used)
				for i := range log {
					if n := strings.Count(log[i].String(), `batch=50 "unused percent"=20 fits=41`); int64(n) != c.told {
						t.Errorf("told %d times: %s", n, &log[i])
					}
				}
				// A batch of 41 finds 125 permits together or not, by chance.
				if c.told > 0 && used > 4600 || c.told == 0 && c.batch == 50 && used < 4600 {
					t.Errorf("%d of 5000 permits are used", used)
				}
			})
		})
	}
}
