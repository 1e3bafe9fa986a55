package rival

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Shardlimit has one node and one shard, so that all of its speed comes
// from coalescing and none from more servers.
var Shardlimit = Rival{
	Name:      "shardlimit",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		return Sharded{Addrs: []string{addr}}.Open(limit)
	},
}

// Sharded is shardlimit with a shard on each of several servers.
type Sharded struct{ Addrs []string }

// Open connects one client, a participant of its own.
func (s Sharded) Open(limit Limit) (Handle, error) {
	client, err := shardlimit.New(Config(s.Addrs...))
	if err != nil {
		return Handle{}, err
	}
	whole := shardlimit.Limit{Permits: limit.Permits, Per: limit.Per, Shards: len(s.Addrs)}
	return Handle{
		Limiter: func(ctx context.Context, name string) (Allow, error) {
			limiter, err := client.Limiter(ctx, name, whole)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) (bool, error) {
				decision, err := limiter.Allow(ctx)
				return decision.Allowed, err
			}, nil
		},
		Keys: func(ctx context.Context, name string) (AllowKey, error) {
			family, err := client.Family(ctx, name, shardlimit.Limit{Permits: limit.Permits, Per: limit.Per})
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key string) (bool, error) {
				decision, err := family.Limiter(key).Allow(ctx)
				return decision.Allowed, err
			}, nil
		},
		Close: client.Close,
	}, nil
}

// Config is how shardlimit is measured: by default. The names of the nodes place shards, and are
// the same in each run, where ports differ.
func Config(addrs ...string) shardlimit.Config {
	var c shardlimit.Config
	for i, addr := range addrs {
		c.Nodes = append(c.Nodes, shardlimit.Node{Name: fmt.Sprintf("node-%d", i), Redis: server.Option(addr)})
	}
	return c
}

// scriptRival is our own script, one call a decision through rueidis: what is
// left of shardlimit's speed without coalescing.
var scriptRival = Rival{
	Name:    "script",
	Keyless: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client, err := rueidis.NewClient(server.Option(addr))
		if err != nil {
			return Handle{}, err
		}
		shards, err := replay.NewShard(client, "script", limit.Permits, limit.Per)
		if err != nil {
			client.Close()
			return Handle{}, err
		}
		return Handle{
			Limiter: func(_ context.Context, name string) (Allow, error) {
				shard := shards.Key(name)
				return func(ctx context.Context) (bool, error) {
					granted, err := shard.Take(ctx, 1, 1)
					return granted > 0, err
				}, nil
			},
			Close: client.Close,
		}, nil
	},
}
