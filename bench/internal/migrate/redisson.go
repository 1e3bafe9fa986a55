package migrate

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit"
)

// work is RedissonWorker of testdata with shardlimit: it pulls until no permit comes for a while.
func work(ctx context.Context, client *shardlimit.Client, patience time.Duration, pull func()) (done int, err error) {
	pulls, err := client.Limiter(ctx, "pulls", shardlimit.PerSecond(100))
	if err != nil {
		return 0, err
	}
	for {
		ok, err := pulls.TryAcquire(ctx, 1, patience)
		if err != nil || !ok {
			return done, err
		}
		pull()
		done++
	}
}
