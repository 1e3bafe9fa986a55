package sim

import (
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// vessel is a shard: the real log with the real share, on its node.
type vessel struct {
	log    script.SlidingLog
	req    script.TakeRequest
	group  [1]script.Group
	caller [1]script.Caller
	room   [1]int64
	told   [1]script.CallerReply
	node   int
	last   int64 // newest time at which it was asked, microseconds
	// contended is whether participants contended at the last take.
	contended bool
}

// taken is what a process learns from a reply.
type taken struct {
	granted, free int64
	next          time.Duration
	contended     bool
	slot          int           // of its account, if participants contend
	retry         time.Duration // when it should come back, if they do
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

// take asks for want permits of one each for a participant, or as many as it may have.
func (v *vessel) take(at, want int64, who script.Caller) taken {
	v.last = max(v.last, at/1000)
	v.group[0], v.caller[0] = script.Group{Size: 1, Count: want}, who
	v.req.Groups, v.req.Callers, v.req.Room, v.req.CallerRoom = v.group[:], v.caller[:], v.room[:], v.told[:]
	r := v.log.Take(v.last, &v.req)
	v.contended = r.Contended
	t := taken{granted: r.Granted, free: r.Free, next: r.Next, contended: r.Contended}
	if r.Contended {
		t.slot, t.retry = r.Callers[0].Slot, r.Callers[0].Retry
	}
	return t
}

// free is how many permits are free. Calls that have been executed in advance of
// the time count already.
func (v *vessel) free(at int64) int64 {
	v.last = max(v.last, at/1000)
	return v.log.Peek(v.last).Free
}
