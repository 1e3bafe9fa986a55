package rival

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// throttledRival decides in Go and writes back with compare-and-swap: the foil
// to one atomic script.
var throttledRival = Rival{
	Name:      "throttled",
	Module:    "github.com/throttled/throttled/v2",
	Algorithm: "GCRA by compare-and-swap, two round trips or more",
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		limiter, err := newThrottled(client, limit)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		return byName(func(ctx context.Context, key string) (bool, error) {
			limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited, err
		}, func() { _ = client.Close() }), nil
	},
}

func newThrottled(client *redis.Client, limit Limit) (*throttled.GCRARateLimiterCtx, error) {
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	return throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(limit.Permits), limit.Per),
		MaxBurst: int(limit.Permits) - 1, // it admits MaxBurst + 1 at once
	})
}
