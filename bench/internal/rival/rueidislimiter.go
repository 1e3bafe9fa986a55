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
		return handle{
			limiter: func(_ context.Context, name string) (Allow, error) {
				return func(ctx context.Context) (bool, error) {
					result, err := limiter.Allow(ctx, name)
					return result.Allowed, err
				}, nil
			},
			close: client.Close,
		}, nil
	},
}
