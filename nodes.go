package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/shard"
)

// roster is the nodes of a Client at one time. It never changes; SetNodes makes a new one.
type roster struct {
	nodes  []Node           // as configured
	byName map[string]*node // these, and those taken out that a layout still names
}

// node returns the node of that name, nil if there is none.
func (c *Client) node(name string) *node { return c.roster.Load().byName[name] }

// all are the configured nodes, for placement.
func (r *roster) all() []shard.Node { return placeable(r.nodes) }

// open are the nodes that new shards and records are placed on: all that do not
// drain, or all if every one of them does.
func (r *roster) open() []shard.Node {
	open := slices.DeleteFunc(slices.Clone(r.nodes), func(n Node) bool { return n.Drain })
	if len(open) == 0 {
		return r.all()
	}
	return placeable(open)
}

// keeps reports whether what is on the node may stay there.
func (r *roster) keeps(name string) bool {
	return slices.ContainsFunc(r.open(), func(n shard.Node) bool { return n.Name == name })
}

// lists reports whether the node is configured, draining or not.
func (r *roster) lists(name string) bool {
	return slices.ContainsFunc(r.nodes, func(n Node) bool { return n.Name == name })
}

func placeable(nodes []Node) []shard.Node {
	placed := make([]shard.Node, len(nodes))
	for i, n := range nodes {
		placed[i] = shard.Node{Name: n.Name, Weight: n.Weight}
	}
	return placed
}

// checkNodes returns a copy of nodes with every default filled in.
func checkNodes(nodes []Node) ([]Node, error) {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, a...)...))
	}
	if len(nodes) == 0 {
		bad("Nodes is empty; list at least one Redis endpoint")
	}
	nodes = slices.Clone(nodes)
	names := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if err := n.fill(); err != nil {
			bad("Nodes[%d]: %v", i, err)
			continue
		}
		if names[n.Name] {
			bad("Nodes[%d]: the name %q is taken by an earlier node; names must differ", i, n.Name)
			continue
		}
		names[n.Name] = true
		for k, other := range nodes[:i] {
			if sameServer(other, *n) {
				bad("Nodes[%d]: it is the same server as Nodes[%d]; list each once", i, k)
			}
		}
	}
	return nodes, errors.Join(errs...)
}

// SetNodes replaces the nodes of this Client while it runs. No shard moves by
// that: limits stay where their layouts say, and a node that was taken out is still
// used, as if it drained, until no layout names it; then its connection is closed. Rebalance
// moves the limits. A node of the same name, address and Client keeps its connection; under
// the same name with another address it is the same node that has moved, with its data. Only
// this process learns of the change: give a new node to every process before a
// limit is moved to it, see docs/operations.md.
//
// It returns when the new nodes are connected. The error is ErrInvalidConfig (nothing is changed
// then), ErrClosed, or tells which of the new nodes could not be reached until ctx ended or at
// the first attempt; they are set all the same, and connected when they are there.
func (c *Client) SetNodes(ctx context.Context, nodes []Node) error {
	nodes, err := checkNodes(nodes)
	if err != nil {
		return err
	}
	added, err := c.replaceNodes(nodes)
	if err != nil {
		return err
	}
	errs := make([]error, len(added))
	var wg sync.WaitGroup
	for i, n := range added {
		wg.Go(func() {
			if _, err := n.connect(ctx); err != nil {
				errs[i] = fmt.Errorf("node %q: %w", n.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// replaceNodes makes the new roster and returns the nodes that have to be connected.
func (c *Client) replaceNodes(nodes []Node) (added []*node, err error) {
	c.rostering.Lock()
	defer c.rostering.Unlock()
	if c.closed.Load() {
		return nil, ErrClosed
	}
	next := &roster{nodes: nodes, byName: maps.Clone(c.roster.Load().byName)}
	var moved []*node
	for _, n := range nodes {
		if old := next.byName[n.Name]; old != nil {
			if old.reaches(n) {
				continue
			}
			moved = append(moved, old)
		}
		made := c.newNode(n)
		next.byName[n.Name] = made
		added = append(added, made)
	}
	c.roster.Store(next)
	for _, co := range c.everyCore() {
		co.renew()
	}
	c.dismiss(moved)
	c.retireNodes()
	return added, nil
}

// retireSoon closes in the background the nodes that were taken out and that no layout names any more.
func (c *Client) retireSoon() {
	if ro := c.roster.Load(); len(ro.byName) == len(ro.nodes) {
		return
	}
	c.spawn(func(context.Context) {
		c.rostering.Lock()
		defer c.rostering.Unlock()
		c.retireNodes()
	})
}

// retireNodes is what retireSoon does. c.rostering is held.
func (c *Client) retireNodes() {
	old := c.roster.Load()
	used := make(map[string]bool)
	for _, co := range c.cores() { // a key that names others follows its family before it is used again
		if t := co.table.Load(); t != nil {
			used[t.layout.Anchor.Node] = true
			for _, s := range t.layout.Shards {
				used[s.Node] = true
			}
		}
	}
	for _, f := range c.everyFamily() {
		for _, name := range f.keyNodes() {
			used[name] = true
		}
	}
	if c.closed.Load() {
		return // Close closes them all
	}
	next := &roster{nodes: old.nodes, byName: maps.Clone(old.byName)}
	var gone []*node
	for name, n := range old.byName {
		if !used[name] && !old.lists(name) {
			delete(next.byName, name)
			gone = append(gone, n)
		}
	}
	if len(gone) == 0 {
		return
	}
	c.roster.Store(next)
	c.dismiss(gone)
}

// dismiss closes nodes when the calls that were sent to them have ended.
func (c *Client) dismiss(nodes []*node) {
	for _, n := range nodes {
		c.cfg.Logger.Info("node was taken out", "node", n.name)
		c.closeLater(n.close)
	}
}

// Rebalance arranges the limit anew over the nodes of this Client that do not
// drain, and moves its layout's record if that is on a node that does. The limit itself stays
// what it is, and so does the number of shards unless it was chosen for the limit (Limit.Shards 0).
// It works and fails as SetLimit does; if the shards are where they should be, it does nothing.
//
// The capacity of the shards that leave follows as their logs empty. When State.Settled, nothing
// of the limit is left where it was.
func (l *Limiter) Rebalance(ctx context.Context) error {
	if err := l.ownLimit("Rebalance"); err != nil {
		return err
	}
	return l.core.register.rebalance(ctx)
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
	turn := make(chan struct{}, 8) // at once
	var wg sync.WaitGroup
	for i, co := range cores {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := co.register.rebalance(ctx); err != nil && !errors.Is(err, errDeleted) {
				errs[i] = fmt.Errorf("limiter %q: %w", co.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
