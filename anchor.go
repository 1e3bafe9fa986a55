package shardlimit

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit/shard"
)

// This file is about records whose places disagree on where the anchor is.

// epochLeap separates the epochs of a layout that settles a dispute from those that the others
// may still write meanwhile: the same epoch never means two layouts.
const epochLeap = 1 << 20

// rivalOf finds a second place at which the record is replaced by compare-and-set, nil if there is none.
// It comes about when two processes that list different nodes declare a limit at
// once, when one that does not know the anchor takes over, or when a server came back from an old snapshot.
func rivalOf(found []reading, at int) *reading {
	for i := range found {
		if f := &found[i]; i != at && f.layout != nil && f.layout.Anchor == f.place {
			return f
		}
	}
	return nil
}

// merge makes one layout of two. Nobody knows which of them shards have obeyed, so
// the new one lists the shards of both and begins by asking every one of them.
func (r *register) merge(ctx context.Context, layout shard.Layout, anchor, rival *reading) error {
	r.core.client.cfg.Logger.Warn("limiter had two layouts; they become one", "limiter", r.core.name,
		"anchor", anchor.place.Node, "rival", rival.place.Node)
	merged, err := layout.Merge(max(layout.Epoch, rival.layout.Epoch, r.highest.Load())+epochLeap, *rival.layout)
	if err != nil {
		return err
	}
	merged.Anchor = anchor.place
	written, _, err := r.write(ctx, anchor.place, anchor.record.Epoch, merged)
	if err != nil || !written {
		return err
	}
	_, _, err = r.write(ctx, rival.place, rival.record.Epoch, merged)
	return err
}

// takeOver gives the limit an anchor that this process knows, if every other place of the record agrees. Else the limiter
// goes on with the layout without being able to confirm or change it.
func (r *register) takeOver(ctx context.Context, found []reading, layout shard.Layout) (agreed bool, err error) {
	homes := r.homes()
	var home *reading
	for i := range found {
		switch f := &found[i]; {
		case f.place == homes[0]:
			home = f
			fallthrough
		case f.place != layout.Anchor:
			if f.err != nil {
				return true, nil
			}
		}
	}
	r.core.client.cfg.Logger.Warn("the layout of a limiter is anchored on a node that is not in Config.Nodes; it is anchored anew",
		"limiter", r.core.name, "node", layout.Anchor.Node)
	next, err := layout.Change(max(layout.Epoch, r.highest.Load())+epochLeap, layout.Spec(), layout.Live())
	if err != nil {
		return false, fmt.Errorf("anchoring the layout anew: %w", err)
	}
	next.Anchor = home.place
	_, _, err = r.write(ctx, home.place, home.record.Epoch, next)
	return false, err
}

// anchorFor is where the layout that follows another is to be anchored: where that one is, unless the node is to go.
func (r *register) anchorFor(layout shard.Layout) shard.Location {
	if at := r.anchorOf(layout); r.core.client.roster.Load().keeps(at.Node) {
		return at
	}
	return r.homes()[0]
}
