package register

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/membership"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about limits whose lost nodes are taken over: how a layout follows the membership of
// the nodes (internal/membership). Whether they are is said by who declares a limit, and stays so.

// reconsiderSpread is over how long the processes that hear of a lost node begin to do something
// about it: one of them is enough.
const reconsiderSpread = 300 * time.Millisecond

// newFence is the fence under which this process declares the limit; nil: under none, because it is
// not to be taken over, there are too few nodes for a majority without one, or no shard is asked.
func (a *arranger) newFence(declared Wanted) *shard.Fence {
	if !a.env.Takeover || len(a.env.Book.Known().Names) < record.Least || declared.Scope != "" {
		return nil
	}
	return &shard.Fence{}
}

// enter confirms the membership of a layout under a fence, and admits the nodes of this process.
func (a *arranger) enter(ctx context.Context, under *shard.Fence) error {
	if under == nil {
		return nil
	}
	err := a.env.Fence.ConfirmSince(ctx, 0)
	if err == nil {
		err = a.env.Fence.Admit(ctx, a.env.Nodes.Roster().Open())
	}
	if err != nil {
		err = Unavailable(err)
	}
	return err
}

// open are the nodes on which shards can be placed: of a limit under a fence those that are in,
// with the incarnations that they are in.
func (a *arranger) open(under *shard.Fence) []shard.Node {
	nodes := a.env.Nodes.Roster().Open()
	if under == nil {
		return nodes
	}
	for i := range nodes { // a list of its own
		nodes[i].Incarnation = a.env.Fence.Incarnation(nodes[i].Name)
	}
	return slices.DeleteFunc(nodes, func(n shard.Node) bool { return n.Incarnation == "" })
}

// ReconsiderSoon has the layout follow the nodes in the background if one of them has gone out, or
// is back.
func (r *Register) ReconsiderSoon() {
	if r.displaced() {
		r.Soon()
	}
}

// displaced reports whether the layout has shards in a life of a node that is over, or may have
// shards again on one that is back.
func (r *Register) displaced() bool {
	t := r.Limit.Layout()
	return t != nil && t.Fence != nil && r.env.Fence.Generation() > 0 && r.displaces(*t)
}

// displaces reports whether a node of the layout is out in that incarnation, or one of its lost
// nodes is back.
func (r *Register) displaces(l shard.Layout) bool {
	return r.returned(l) ||
		slices.ContainsFunc(hosts(l), func(n shard.Node) bool { return r.env.Fence.Bars(n.Name, n.Incarnation) })
}

// hosts are the nodes that have live shards of a limit, or shards of a family's keys.
func hosts(l shard.Layout) (nodes []shard.Node) {
	if l.Keys != nil {
		return l.Keys.Nodes
	}
	for _, s := range l.Live() {
		nodes = append(nodes, shard.Node{Name: s.Node, Incarnation: s.Incarnation})
	}
	return nodes
}

// returned reports whether a node is back from which shares were taken over, this process may place
// shards there, and a limit has nothing left to be moved from there.
func (a *arranger) returned(l shard.Layout) bool {
	return (l.Settled || l.Keys != nil) && slices.ContainsFunc(a.open(l.Fence), func(n shard.Node) bool {
		return slices.Contains(l.Fence.Lost, n.Name)
	})
}

// reconsider replaces the layout by one over the nodes that are in, if one of them has gone out, or
// is back. Few limits of a process do that at a time: there may be thousands.
func (r *Register) reconsider(ctx context.Context) error {
	if !r.displaced() {
		return nil
	}
	clock.Sleep(ctx, chance.N(reconsiderSpread))
	select {
	case r.env.Fence.Moves <- struct{}{}:
		defer func() { <-r.env.Fence.Moves }()
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*r.env.Nodes.Patience())
	defer cancel()
	if err := r.env.Fence.ConfirmSince(ctx, 0); err != nil {
		return err // this process may be the one that is cut off
	}
	next, err := r.propose(ctx, func(old shard.Layout) (maker, error) {
		if old.Fence == nil || !r.displaces(old) {
			return nil, nil // somebody was faster
		}
		old.Fence = &shard.Fence{Lost: lostOf(r.env.Fence, old)}
		return r.rearranged(ctx, old)
	})
	if err != nil && !errors.Is(err, ErrDeleted) && !errors.Is(err, shard.ErrTooManyMoves) { // that passes
		r.warn("the layout of a limiter could not follow the nodes", "err", err)
	}
	if err != nil || next == nil {
		return err
	}
	if len(next.Fence.Lost) > 0 {
		r.warn("what a lost node has of a limiter is taken over", "lost", next.Fence.Lost, "epoch", next.Epoch)
	}
	_ = r.putInForce(ctx, *next) // the lost shards do not answer; the driver goes on
	return nil
}

// lostOf are the nodes from which the layout after this one has taken over, and that are not back.
func lostOf(f *membership.Fence, l shard.Layout) []string {
	lost := slices.DeleteFunc(slices.Clone(l.Fence.Lost), func(name string) bool { return f.Incarnation(name) != "" })
	for _, n := range hosts(l) {
		if f.Out(n.Name) {
			lost = append(lost, n.Name)
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost)
}

// givenUpIn is how long it takes until a leaving shard, whose node is out, can have nothing in use
// any more. It is false while the shard has to be asked.
func (a *arranger) givenUpIn(layout shard.Layout, s shard.Shard) (time.Duration, bool) {
	if layout.Fence == nil || s.Share > 0 {
		return 0, false
	}
	a.env.Fence.Refresh()
	lasts := layout.GrantsLast()
	if t := a.Limit.Layout(); a.Family && t != nil { // of a key the layout says less than that of its family
		lasts = max(lasts, t.GrantsLast())
	}
	return a.env.Fence.GivenUpIn(s.Node, s.Incarnation, lasts)
}
