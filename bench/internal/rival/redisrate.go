package rival

import (
	"context"
	"strings"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

var redisRate = Rival{
	Name:      "redis_rate",
	Module:    "github.com/go-redis/redis_rate/v10",
	Algorithm: "GCRA, one script",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addr, ",")})
		limiter := redis_rate.NewLimiter(client)
		rate := redis_rate.Limit{Rate: int(limit.Permits), Burst: int(limit.Permits), Period: limit.Per}
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := limiter.Allow(ctx, key, rate)
			if err != nil {
				return false, err
			}
			return result.Allowed > 0, nil
		}, func() { _ = client.Close() }), nil
	},
}
