package call

import (
	"cmp"
	"context"
	"sync"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
)

// Ping asks every node of the Config, at once, whether it answers: the error is nil if it does.
func (c *Client) Ping(ctx context.Context) (names []string, errs []error) {
	roster := c.Nodes.Roster()
	names = roster.Names()
	errs = make([]error, len(names))
	ctx, cancel := context.WithTimeout(ctx, c.Config.CallTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		if c.Closed.Load() {
			errs[i] = limit.ErrClosed
			continue
		}
		all.Go(func() {
			listed := roster.Listed(name)
			if errs[i] = listed.Ping(ctx); errs[i] != nil {
				errs[i] = cmp.Or(node.Mistaken([]*node.Node{listed}, errs[i]), errs[i])
			}
		})
	}
	all.Wait()
	return names, errs
}
