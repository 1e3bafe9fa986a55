package register

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about records whose places disagree on where the anchor is.

// epochLeap separates the epochs of a layout that settles a dispute from those that the others
// may still write meanwhile: the same epoch never means two layouts.
const epochLeap = 1 << 20

// isNew reports whether the limit may be so new that others just begin it, too, at other places.
// Then one of them that cannot be reached for a moment may be the only one at which this shows.
func isNew(found []reading) bool {
	return !slices.ContainsFunc(found, func(f reading) bool { return f.record.Exists && f.record.Age > newFor })
}

// allRead reports whether every place was read, but those on nodes that this process does not know.
func allRead(found []reading) bool {
	return !slices.ContainsFunc(found,
		func(f reading) bool { return f.err != nil && !errors.Is(f.err, node.ErrStranger) })
}

// rivalsOf returns the readings of layouts that the given one may not take into account. One that
// names another anchor is left over from a move only if the layout says that it was there, or if
// that anchor leads on to the layout's. Else it may be in use: it comes about when two processes
// that list different nodes declare a limit at once, when one that does not know the anchor takes
// over, or when a server came back from an old snapshot.
func rivalsOf(found []reading, layout shard.Layout) (rivals []*reading) {
	for i := range found {
		f := &found[i]
		if f.layout != nil && !layout.Follows(*f.layout) && !leads(found, f.layout.Anchor, layout.Anchor) {
			rivals = append(rivals, f)
		}
	}
	return rivals
}

// leads reports whether the record at one place says, maybe by way of others, that it was moved to
// another.
func leads(found []reading, from, to shard.Location) bool {
	for range anchorHops {
		i := slices.IndexFunc(found, func(f reading) bool { return f.place == from })
		if i < 0 || found[i].layout == nil || from == to {
			return false
		}
		if from = found[i].layout.Anchor; from == to {
			return true
		}
	}
	return false
}

// foremost returns the layout that is to go on, given the newest one of the record, and those that
// it has to take into account. They are none, and it is that one, unless this process or a place
// knows a layout that the record forgot: then records were lost or came back from a snapshot.
func (r *Register) foremost(found []reading, newest shard.Layout) (best shard.Layout, others []shard.Layout) {
	best = newest
	consider := func(l shard.Layout) {
		switch {
		case l.Outranks(best):
			best, others = l, append(others, best)
		case l.Epoch > newest.Epoch && l.Epoch != best.Epoch:
			others = append(others, l)
		}
	}
	for _, f := range found {
		if f.layout != nil {
			consider(*f.layout)
		}
	}
	if t := r.Limit.Layout(); t != nil {
		consider(*t)
	}
	return best, others
}

// merge makes one layout of several, for the first of them goes on. Nobody knows which of them
// shards have obeyed, so the new one lists the shards of all and begins by asking every one of
// them.
func (r *Register) merge(ctx context.Context, best shard.Layout, anchor *reading, rivals []*reading,
	others []shard.Layout) error {
	if len(others) > 0 {
		r.warn("the record of a limiter was lost or is older than what was in force; it is replaced",
			"anchor", anchor.place.Node)
	}
	for _, rival := range rivals {
		r.warn("limiter had two layouts; they become one", "anchor", anchor.place.Node, "rival",
			rival.layout.Anchor.Node)
	}
	merged, err := r.union(best, r.anchorFor(best), append(others, layoutsOf(rivals)...))
	if err != nil {
		return err
	}
	written, _, err := r.write(ctx, anchor.place, anchor.record.Epoch, merged)
	if err != nil || !written {
		return err
	}
	for _, rival := range rivals {
		if _, _, err := r.write(ctx, rival.place, rival.record.Epoch, merged); err != nil {
			return err
		}
	}
	return nil
}

func layoutsOf(found []*reading) (layouts []shard.Layout) {
	for _, f := range found {
		layouts = append(layouts, *f.layout)
	}
	return layouts
}

// union is the layout that follows one and others, to be anchored at a place.
func (r *Register) union(layout shard.Layout, anchor shard.Location, others []shard.Layout) (shard.Layout, error) {
	epoch := layout.Epoch
	for _, other := range others {
		epoch = max(epoch, other.Epoch)
	}
	forgotten := r.highest.Load() > epoch // shards obey a later one
	epoch = max(epoch, r.highest.Load())
	next, err := layout.Renumber(epoch + epochLeap)
	if len(others) > 0 || forgotten {
		next, err = layout.Merge(epoch+epochLeap, others...)
	}
	if err != nil {
		return shard.Layout{}, fmt.Errorf("anchoring the layout anew: %w", err)
	}
	return next.AnchoredAt(anchor, append(others, layout)...), nil
}

// takeOver gives the limit an anchor that this process knows, if every other place of the record
// can be read. Else the limiter goes on with the layout without being able to confirm or change it.
func (r *Register) takeOver(ctx context.Context, found []reading, layout shard.Layout) (agreed bool, err error) {
	here := r.homes()[0]
	at := slices.IndexFunc(found, func(f reading) bool { return f.place == here })
	if at < 0 || !allRead(found) { // below 0: the nodes were changed just now
		return true, nil
	}
	home := found[at]
	r.warn("the layout of a limiter is anchored on a node that is lost, or not in Config.Nodes; it is anchored anew",
		"node", layout.Anchor.Node)
	best, others := r.foremost(found, layout)
	next, err := r.union(best, home.place, append(others, layoutsOf(rivalsOf(found, layout))...))
	if err != nil {
		return false, err
	}
	_, _, err = r.write(ctx, home.place, home.record.Epoch, next)
	return false, err
}

// anchorFor is where the layout that follows another is to be anchored: where that one is, unless
// the node is to go.
func (r *Register) anchorFor(layout shard.Layout) shard.Location {
	at, f := layout.Anchor, r.fenceOf(layout)
	if r.env.Nodes.Roster().Keeps(at.Node) && (f == nil || !f.Fenced(at.Node)) {
		return at
	}
	return r.homes()[0]
}
