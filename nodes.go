package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
)

// checkNodes returns a copy of nodes with every default filled in.
func checkNodes(nodes []Node) ([]Node, error) {
	specs, problems := node.Check(specsOf(nodes), MaxName)
	var errs []error
	if len(nodes) == 0 {
		errs = append(errs, fmt.Errorf("%w: Nodes is empty; list at least one Redis endpoint", ErrInvalidConfig))
	}
	for _, problem := range problems {
		errs = append(errs, fmt.Errorf("%w: %w", ErrInvalidConfig, problem))
	}
	nodes = slices.Clone(nodes)
	for i := range specs {
		nodes[i].Name, nodes[i].Weight = specs[i].Name, specs[i].Weight
	}
	return nodes, errors.Join(errs...)
}

// renew has all limits and keys find the nodes of their shards anew.
func (c *Client) renew() {
	all := c.cores()
	for _, f := range c.everyFamily() {
		all = append(all, f.keys.all()...)
	}
	for _, co := range all {
		co.renew()
	}
}

// specsOf describes the nodes of a Config.
func specsOf(nodes []Node) (specs []node.Spec) {
	for i := range nodes {
		specs = append(specs, *nodes[i].spec())
	}
	return specs
}

func (n *Node) spec() *node.Spec {
	return &node.Spec{Name: n.Name, Option: n.Redis, Client: n.Client, Weight: n.Weight, Drain: n.Drain}
}

// Rebalance arranges the limit anew over the nodes of this Client that do not
// drain, and has the records kept at such nodes. The limit itself stays what it is, and so does the
// number of shards unless it was chosen for the limit (Limit.Shards 0).
// It works and fails as SetLimit does; if the shards are where they should be, it does nothing.
//
// The capacity of the shards that leave follows as their logs empty. When State.Settled, nothing
// of the limit is left where it was.
func (l *Limiter) Rebalance(ctx context.Context) error {
	if err := l.standsAlone("Rebalance"); err != nil {
		return err
	}
	return l.core.register.Rebalance(ctx)
}

// Rebalance calls Limiter.Rebalance for every limit, and Family.Rebalance for every family, that
// this Client has opened.
func (c *Client) Rebalance(ctx context.Context) error {
	if c.closed.Load() {
		return ErrClosed
	}
	cores := c.recorded()
	errs := make([]error, len(cores))
	busy := make(chan struct{}, 8) // at once
	var wg sync.WaitGroup
	for i, co := range cores {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			if err := co.register.Rebalance(ctx); err != nil && !errors.Is(err, register.ErrDeleted) {
				errs[i] = fmt.Errorf("limiter %q: %w", co.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
