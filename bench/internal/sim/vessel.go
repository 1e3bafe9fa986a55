package sim

import (
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// vessel is a shard: the real log with the real share, on its node.
type vessel struct {
	log   script.SlidingLog
	req   script.TakeRequest
	group [1]script.Group
	node  int
	last  int64 // newest time at which it was asked, microseconds
}

// taken is what a process learns from a reply.
type taken struct {
	granted, free int64
	next          time.Duration
}

// newVessels arranges the limit.
func newVessels(c *Config) ([]*vessel, []shard.Shard, error) {
	hosts := make(map[string]int)
	for i, n := range c.Nodes {
		hosts[n.Name] = i
	}
	shards := shard.Arrange("n:"+c.Limit, c.Permits, c.Shards, c.Nodes)
	vessels := make([]*vessel, len(shards))
	for i, s := range shards {
		p, err := script.NewProposal(1, s.Share, s.Share, c.Window, c.Window, false)
		if err != nil {
			return nil, nil, err
		}
		v := &vessel{node: hosts[s.Node]}
		v.req.Proposal, v.req.Seen = p, false
		vessels[i] = v
	}
	return vessels, shards, nil
}

// take asks for want permits of one each, or as many as there are.
func (v *vessel) take(at, want int64) taken {
	v.last = max(v.last, at/1000)
	v.req.Groups = nil
	if want > 0 {
		v.group[0] = script.Group{Size: 1, Count: want}
		v.req.Groups = v.group[:]
	}
	r := v.log.Take(v.last, &v.req)
	return taken{granted: r.Granted, free: r.Free, next: r.Next}
}

// room is how many permits are free. Calls that have been executed in advance of
// the time count already.
func (v *vessel) room(at int64) int64 { return v.take(at, 0).free }
