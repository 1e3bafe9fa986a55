package node

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// pinged are the slots of a cluster of which one must answer. Three, so that one of its masters can
// be away.
var pinged = [...]int{0, shard.Slots / 3, 2 * shard.Slots / 3}

// Ping reports whether the node answers a call that spends nothing: nil, or why not. Of a cluster
// it suffices that a part answers. One that is away is asked only when it is time to look whether
// it is back; else the answer is that of the last time.
func (n *Node) Ping(ctx context.Context) error {
	if err := n.Connect(ctx); err != nil {
		return err
	}
	slots := pinged[:1]
	if n.Spread() {
		slots = pinged[:]
	}
	answers := make(chan error, len(slots))
	for _, slot := range slots {
		go func() { // it looks at a shard that no limit has
			about := telemetry.Call{Operation: telemetry.Probe, Shard: shard.Tag(slot)}
			ctx, call, err := n.BeginUnlessAway(ctx, slot, about)
			if err == nil {
				_, err = call.Scripts.Peek(ctx, script.ShardKeys(n.env.Prefix, about.Shard, "ping"))
				call.Finish(ctx, err)
			}
			answers <- err
		}()
	}
	var err error
	for range slots {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}
