package shardlimit

import (
	"context"
	"sync"
)

// NodeState is whether a node answers.
type NodeState struct {
	Name string // of the node, see Node.Name
	Err  error  // why it does not answer; nil if it does
}

// Ping asks every node of the Config, at once, whether it answers, and
// returns one NodeState for each, in that order. It spends nothing and takes at most
// Config.CallTimeout, which also bounds connecting. Nodes that are away are asked about once a
// second at most; between, what they last said is returned. Of a cluster it suffices that a part
// answers. After Close every Err is ErrClosed.
//
// It is meant for health checks; calls for permits need none.
func (c *Client) Ping(ctx context.Context) []NodeState {
	roster := c.nodes.Roster()
	names := roster.Names()
	states := make([]NodeState, len(names))
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		states[i].Name = name
		if c.closed.Load() {
			states[i].Err = ErrClosed
			continue
		}
		all.Go(func() { states[i].Err = roster.Listed(name).Ping(ctx) })
	}
	all.Wait()
	return states
}
