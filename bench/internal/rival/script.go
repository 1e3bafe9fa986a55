package rival

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// scriptRival is our own script, one call a decision through rueidis: what is
// left of shardlimit's speed without coalescing.
var scriptRival = Rival{
	Name:      "script",
	Algorithm: "shardlimit's sliding log without coalescing",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client, err := rueidis.NewClient(server.Option(addr))
		if err != nil {
			return nil, err
		}
		return handle{
			limiter: func(_ context.Context, name string) (Allow, error) {
				shard, err := replay.NewShard(client, name, limit.Permits, limit.Per)
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context) (bool, error) {
					granted, err := shard.Take(ctx, 1)
					return granted > 0, err
				}, nil
			},
			keys: func(_ context.Context, name string) (AllowKey, error) {
				family, err := replay.NewShard(client, name, limit.Permits, limit.Per)
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context, key string) (bool, error) {
					granted, err := family.Key(key).Take(ctx, 1)
					return granted > 0, err
				}, nil
			},
			close: client.Close,
		}, nil
	},
}
