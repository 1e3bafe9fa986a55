package rival

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Sharded is shardlimit with a shard on each of several servers.
type Sharded struct {
	Addrs []string
	Lease time.Duration // 0: every decision asks Redis
}

// Open connects one client, a participant of its own.
func (s Sharded) Open(limit Limit) (Handle, error) {
	nodes := make([]shardlimit.Node, len(s.Addrs))
	for i, addr := range s.Addrs {
		// The names place the shards; ports differ from run to run.
		nodes[i] = shardlimit.Node{Name: fmt.Sprintf("node-%d", i), Redis: server.Option(addr)}
	}
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes, CallTimeout: time.Second}) // as in Shardlimit
	if err != nil {
		return nil, err
	}
	return handle{
		limiter: func(ctx context.Context, name string) (Allow, error) {
			limiter, err := client.Limiter(ctx, name, shardlimit.Limit{
				Permits: limit.Permits, Per: limit.Per, Shards: len(s.Addrs), Lease: s.Lease,
			})
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) (bool, error) {
				decision, err := limiter.Allow(ctx)
				return decision.Allowed, err
			}, nil
		},
		close: client.Close,
	}, nil
}
