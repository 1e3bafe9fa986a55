package rival

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// maxParts is over how many keys a limit is split, at most.
const maxParts = 16

// roundRobin splits a limit as zalando/skipper's cluster rate limit does
// (pull request 1895), written out over our own script, so that only the way of
// sharding differs: K keys, K being the largest divisor of the limit up to 16,
// each with the K-th part; every client takes them in turn, beginning with the
// first; a denial by one key is a denial, whatever the others have.
var roundRobin = Rival{
	Name:      "round robin",
	Algorithm: "sliding logs over K keys in turn, no spill (skipper's way)",
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client, err := rueidis.NewClient(server.Option(addr))
		if err != nil {
			return nil, err
		}
		return handle{
			limiter: func(_ context.Context, name string) (Allow, error) { return inTurn(client, name, limit) },
			close:   client.Close,
		}, nil
	},
}

func inTurn(client rueidis.Client, name string, limit Limit) (Allow, error) {
	parts := largestDivisor(limit.Permits, maxParts)
	shards := make([]*replay.Shard, parts)
	for i := range shards {
		var err error
		shards[i], err = replay.NewShard(client, name+"/"+strconv.Itoa(i), limit.Permits/parts, limit.Per)
		if err != nil {
			return nil, err
		}
	}
	var calls atomic.Uint64
	return func(ctx context.Context) (bool, error) {
		turn := (calls.Add(1) - 1) % uint64(parts)
		granted, err := shards[turn].Take(ctx, 1)
		return granted > 0, err
	}, nil
}

// largestDivisor is the largest k up to most that divides n; 1 if n is not positive.
func largestDivisor(n, most int64) int64 {
	for k := min(n, most); k > 1; k-- {
		if n%k == 0 {
			return k
		}
	}
	return 1
}
