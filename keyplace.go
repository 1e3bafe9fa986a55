package shardlimit

import (
	"context"

	"github.com/shardlimit/shardlimit/shard"
)

// This file is about where the keys of a family are.

// keyNodes are the nodes on which keys of the family are or were placed.
func (f *Family) keyNodes() (names []string) {
	t := f.core.table.Load()
	if t == nil || t.layout.Keys == nil {
		return nil
	}
	for _, n := range t.layout.Keys.Nodes {
		names = append(names, n.Name)
	}
	for _, p := range t.layout.Keys.Before {
		for _, n := range p.Nodes {
			names = append(names, n.Name)
		}
	}
	return append(names, t.layout.Anchor.Node)
}

// layoutOf is the layout of a key under the family's. While the record of a family that was
// declared by an older version cannot be written, its keys are arranged as that version did.
func (f *Family) layoutOf(id string, family shard.Layout, shards int) (shard.Layout, error) {
	if family.Keys == nil {
		family.Keys = &shard.Keys{Arrangement: shard.Arrangement{Shards: shards, Even: true,
			Nodes: f.core.client.nodes.Roster().All()}}
	}
	return family.ForKey(id)
}

// Rebalance places the keys of the family over the nodes of this Client that do not drain, and
// moves the family's record if that is on a node that does. Every process follows, whichever nodes
// it lists. If the keys are placed so already, it does nothing. It fails as SetLimit does.
//
// A key that is to be elsewhere moves with the first call for it in each process: at once if it
// was idle for a window, else as what was used leaves the window. See docs/operations.md.
func (f *Family) Rebalance(ctx context.Context) error {
	if f.core.client.closed.Load() {
		return ErrClosed
	}
	return f.core.register.Rebalance(ctx)
}
