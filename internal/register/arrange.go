package register

import (
	"cmp"
	"context"

	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/shard"
)

// newLimitParticipants is how many participants a new limit is taken to have: nobody has counted
// them yet.
const newLimitParticipants = 16

// arrange places the shards of a limit that so many participants are expected to share; under a
// fence over the nodes that are in.
func (r *Register) arrange(ctx context.Context, want Wanted, participants int64, f *fence.Fence) []shard.Shard {
	nodes, open := r.env.Nodes.Roster(), r.open(f)
	n := want.Shards
	if n == 0 {
		servers := 0
		for _, nd := range open {
			servers += nodes.Node(nd.Name).Masters(ctx)
		}
		n = min(shard.Auto(want.Permits, servers, participants), shard.MaxLive)
	}
	// fewer if there would be no permit, or no part of the burst, for each
	n = shard.Fit(cmp.Or(want.Burst, want.Permits), n, shard.Slots)
	return inLife(f, shard.Arrange(r.ID, want.Permits, n, open))
}
