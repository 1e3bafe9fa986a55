package waiting

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Who waits for batches that leave a part of each shard unused is told once, and what would fit.
func TestBatchesThatDoNotFitAreToldOf(t *testing.T) {
	for batch, told := range map[int64]int{50: 1, 41: 0} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c := limittest.Bubbled(t, 1).Client(t, func(c *shardlimit.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 500, Per: time.Second, Shards: 4})
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					if err := l.WaitN(t.Context(), batch); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := strings.Count(log.String(), `batch=50 "unused percent"=20 fits=41`); n != told {
				t.Errorf("batches of %d: told %d times: %s", batch, n, &log)
			}
		})
	}
}
