package call

import (
	"context"
	"sync"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// NodeState is whether a node answers: nil if it does.
type NodeState struct {
	Name string
	Err  error
}

// Ping asks every node of the Config, at once, whether it answers.
func (c *Client) Ping(ctx context.Context) []NodeState {
	roster := c.Nodes.Roster()
	names := roster.Names()
	states := make([]NodeState, len(names))
	ctx, cancel := context.WithTimeout(ctx, c.Config.CallTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		states[i].Name = name
		if c.Closed.Load() {
			states[i].Err = limit.ErrClosed
			continue
		}
		all.Go(func() { states[i].Err = roster.Listed(name).Ping(ctx) })
	}
	all.Wait()
	return states
}
