package rival

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var rueidisLimiter = Rival{
	Name:      "rueidislimiter",
	Module:    "github.com/redis/rueidis/rueidislimiter",
	Algorithm: "fixed window by the client's clock, one script",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		var client rueidis.Client
		limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientOption: server.Option(addr),
			ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
				client, err = rueidis.NewClient(option) // kept, because the limiter cannot be closed
				return client, err
			},
			Limit:  int(limit.Permits),
			Window: limit.Per,
		})
		if err != nil {
			return nil, err
		}
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := limiter.Allow(ctx, key)
			return result.Allowed, err
		}, client.Close), nil
	},
}
