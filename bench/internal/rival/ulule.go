package rival

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

var ulule = Rival{
	Name:      "ulule",
	Module:    "github.com/ulule/limiter/v3",
	Algorithm: "fixed window, one script",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addr, ",")})
		store, err := ululeredis.NewStore(client)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		l := limiter.New(store, limiter.Rate{Period: limit.Per, Limit: limit.Permits})
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := l.Get(ctx, key)
			return err == nil && !result.Reached, err
		}, func() { _ = client.Close() }), nil
	},
}
