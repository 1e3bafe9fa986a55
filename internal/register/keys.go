package register

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about what the record of a family says of its keys: over which nodes they are
// placed. No process places a key over its own nodes, because those may differ from another's.

// firstKeys returns how the keys of a family are arranged that nobody has used before.
func (r *Register) firstKeys(want Wanted, f *fence.Fence) *shard.Keys {
	keys, _ := shard.Layout{}.KeysAfter(want.Spec,
		shard.Arrangement{Slots: shard.KeySlots, Nodes: r.open(f)})
	return keys // there is nothing before it, so there is no error
}

// keysFor returns how keys are to be arranged over nodes under the limit that follows a layout.
func (r *Register) keysFor(layout shard.Layout, spec shard.Spec, nodes []shard.Node) (*shard.Keys, error) {
	return layout.KeysAfter(spec, shard.Arrangement{Slots: layout.Keys.Slots, Nodes: nodes})
}

// rearrange is what follows a family's layout when its keys are to be placed over the nodes of
// this process that do not drain; nil if they are.
func (r *Register) rearrange(layout shard.Layout) (*shard.Layout, error) {
	keys, err := r.keysFor(layout, layout.Spec(), r.open(r.fenceOf(layout)))
	if err != nil {
		return nil, err
	}
	if slices.Equal(keys.Nodes, layout.Keys.Nodes) && r.anchorFor(layout) == layout.Anchor {
		return nil, nil
	}
	next, err := layout.Change(r.nextEpoch(layout), layout.Spec(), layout.Live())
	next.Keys = keys
	return &next, err
}

// tend does what time brings to the record of a family: it notes since when the arrangement of its
// keys is in force, and forgets those before when nothing can be held under them any more. It
// reports false if another process was faster.
//
// The clock is that of the anchor's node, and the time that of a reading: so the record was
// written before it, however long that took.
func (r *Register) tend(ctx context.Context, found []reading, anchor *reading,
	layout *shard.Layout) (*shard.Layout, bool, error) {
	if !r.Family || anchor.layout == nil || anchor.record.Epoch != layout.Epoch || anchor.layout.Epoch != layout.Epoch {
		return layout, true, nil
	}
	r.tended.Store(anchor.layout)
	next, keys := *anchor.layout, anchor.layout.Keys
	var err error
	switch {
	case !keys.Moving():
		return layout, true, nil
	case keys.SinceAt != anchor.place.Node || anchor.record.Now-keys.Since >= leftAfter(layout).Microseconds() &&
		keys.Waits():
		since := *keys
		since.Since, since.SinceAt, since.Upto = anchor.record.Now, anchor.place.Node, layout.Epoch
		next.Keys = &since
	case anchor.record.Now-keys.Since < leftAfter(layout).Microseconds() || !r.everywhere(found, layout.Epoch):
		return layout, true, nil
	default:
		next, err = next.Renumber(r.nextEpoch(next))
		next.Keys = keys.Forget()
	}
	if err != nil {
		return nil, false, err
	}
	_, agreed, err := r.write(ctx, anchor.place, anchor.record.Epoch, next)
	next = r.asStored(next)
	if agreed {
		r.tended.Store(&next)
	}
	return &next, agreed, err
}

// asTended is a layout with since when it is in force. Of a layout that a process works with only
// the epoch counts, so it may have come without.
func (r *Register) asTended(layout shard.Layout) shard.Layout {
	if t := r.tended.Load(); t != nil && t.Epoch == layout.Epoch {
		layout.Keys = t.Keys
	}
	return layout
}

// leftAfter is how long after a change of a family nothing can be held any more where its keys
// were before. By then no process believes in the layout before, and what it granted last, or ahead
// of time, has left the window. The states of shards are gone, too: one that was never told of a
// later layout would have its share if the key came back to it.
func leftAfter(layout *shard.Layout) time.Duration {
	return confirmFor + 2*layout.Keys.Longest + KeyKeep + time.Second
}

// KeyKeep is how much longer than two windows a key's state lives after its last use, or after what
// was used last has left the window.
const KeyKeep = time.Second

// everywhere reports whether no place of the record that this process knows tells of another epoch,
// and none at which it is kept of nothing.
func (r *Register) everywhere(found []reading, epoch int64) bool {
	homes := r.homes()
	return !slices.ContainsFunc(found, func(f reading) bool {
		switch {
		case errors.Is(f.err, node.ErrStranger):
			return false
		case f.err != nil:
			return true
		case !f.record.Exists:
			return slices.Contains(homes, f.place)
		}
		return f.record.Epoch != epoch
	})
}
