package migrate

import (
	"context"
	"errors"
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
		within, cancel := context.WithTimeout(ctx, patience)
		err := pulls.Wait(within)
		cancel()
		if errors.Is(err, shardlimit.ErrWaitTooLong) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
		pull()
		done++
	}
}
