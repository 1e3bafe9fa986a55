package rival

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Shardlimit has one node and one shard, so that all of its speed comes
// from coalescing and none from more servers.
var Shardlimit = Rival{
	Name:      "shardlimit",
	Algorithm: "sliding log, one script a batch",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client, err := shardlimit.New(shardlimit.Config{
			// One name for each server: ports differ from run to run, and Sharded calls the first
			// one so, too.
			Nodes:       []shardlimit.Node{{Name: "node-0", Redis: server.Option(addr)}},
			CallTimeout: time.Second, // on a loaded machine the default would be a race with the scheduler
		})
		if err != nil {
			return nil, err
		}
		return handle{
			limiter: func(ctx context.Context, name string) (Allow, error) {
				limiter, err := client.Limiter(ctx, name,
					shardlimit.Limit{Permits: limit.Permits, Per: limit.Per, Shards: 1})
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context) (bool, error) {
					decision, err := limiter.Allow(ctx)
					return decision.Allowed, err
				}, nil
			},
			keys: func(ctx context.Context, name string) (AllowKey, error) {
				family, err := client.Family(ctx, name, shardlimit.Limit{Permits: limit.Permits, Per: limit.Per})
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context, key string) (bool, error) {
					decision, err := family.Limiter(key).Allow(ctx)
					return decision.Allowed, err
				}, nil
			},
			close: client.Close,
		}, nil
	},
}
