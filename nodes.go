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

// SetNodes replaces the nodes of this Client while it runs. No shard moves by
// that: limits stay where their layouts say, and a node that was taken out is still
// used, as if it drained, until no layout names it; then its connection is closed. Rebalance
// moves the limits. A node of the same name, address and Client keeps its connection; under
// the same name with another address it is the same node that has moved, with its data. Only
// this process learns of the change: give a new node to every process before a
// limit is moved to it, see docs/howto/change-nodes.md.
//
// It returns when the new nodes are connected. The error is ErrInvalidConfig (nothing is changed
// then), ErrClosed, or tells which of the new nodes could not be reached until ctx ended or at
// the first attempt; they are set all the same, and connected when they are there.
func (c *Client) SetNodes(ctx context.Context, nodes []Node) error {
	nodes, err := checkNodes(nodes)
	if err != nil {
		return err
	}
	added, ok := c.nodes.Replace(specsOf(nodes), c.renew, c.nodesInUse)
	if !ok {
		return ErrClosed
	}
	errs := make([]error, len(added))
	var wg sync.WaitGroup
	for i, n := range added {
		wg.Go(func() {
			if _, err := n.Connect(ctx); err != nil {
				errs[i] = fmt.Errorf("node %q: %w", n.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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

// nodesInUse are the nodes that a layout names.
func (c *Client) nodesInUse() map[string]bool {
	used := make(map[string]bool)
	for _, co := range c.cores() { // a key that names others follows its family before it is used again
		if r := co.routes.Load(); r != nil {
			for _, s := range r.layout.Shards {
				used[s.Node] = true
			}
		}
	}
	for _, f := range c.everyFamily() {
		for _, name := range f.keyNodes() {
			used[name] = true
		}
	}
	for _, name := range c.records.Book.Nodes() {
		used[name] = true
	}
	return used
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
	cores := c.cores()
	for _, f := range c.everyFamily() {
		cores = append(cores, f.core)
	}
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
