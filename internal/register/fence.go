package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about limits whose lost nodes are taken over: how a layout follows the membership of
// the nodes (internal/fence).

// reconsiderSpread is over how long the processes that hear of a lost node begin to do something
// about it: one of them is enough.
const reconsiderSpread = 300 * time.Millisecond

// fence is that of the layout that the process works with or, before there is one, that under which
// it would declare the limit; nil if there is none.
func (r *Register) fence() *fence.Fence {
	if t := r.Limit.Layout(); t != nil {
		return r.fenceOf(*t)
	}
	if !r.Limit.Declared().Failover {
		return nil
	}
	places := fence.Places(r.env.Nodes.Prefix, r.env.Nodes.Roster().Open())
	if places == nil {
		return nil
	}
	return r.env.Fences.Of(places)
}

func (r *Register) fenceOf(layout shard.Layout) *fence.Fence {
	if layout.Fence == nil {
		return nil
	}
	return r.env.Fences.Of(layout.Fence.Places)
}

// lookAround learns which nodes are out before the places of a record are read, if that can be
// told: the record of a limit that has none yet is not begun on one of them.
func (r *Register) lookAround(ctx context.Context) {
	f := r.fence()
	if f == nil {
		return
	}
	if f.Generation() == 0 {
		_ = f.Confirm(ctx)
	}
	f.Refresh()
}

// fenceFor is the fence under which the layout of a wanted limit is to be, confirmed; nil: under
// none. A limit keeps the fence that it has.
func (r *Register) fenceFor(ctx context.Context, want Wanted, old *shard.Layout) (*shard.Fence, *fence.Fence, error) {
	if !want.Failover {
		return nil, nil, nil
	}
	var under shard.Fence
	if old != nil && old.Fence != nil {
		under.Places, under.Lost = old.Fence.Places, old.Fence.Lost
	} else if under.Places = fence.Places(r.env.Nodes.Prefix, r.env.Nodes.Roster().Open()); under.Places == nil {
		return nil, nil, nil // too few nodes for a majority without one of them
	}
	f := r.env.Fences.Of(under.Places)
	if f == nil {
		return nil, nil, fmt.Errorf("%w: a membership at %d places", ErrUnreadable, len(under.Places))
	}
	if err := r.admit(ctx, f); err != nil {
		return nil, nil, err
	}
	return r.lasting(under, old, want.Spec), f, nil
}

// lasting completes the fence of a limit that follows a layout: for how long a grant may
// matter. Grants of earlier layouts count for their time from when they were replaced. That all
// shards have heard of the change ends nothing: permits may be reserved or held.
func (r *Register) lasting(under shard.Fence, old *shard.Layout, spec shard.Spec) *shard.Fence {
	under = under.Lasting(lastsUnder(spec))
	if old != nil {
		now := r.nextEpoch(*old)
		for _, s := range old.Specs() {
			under = under.Counting(now, lastsUnder(s))
		}
		under = under.CountingOf(old.Fence, now).CountingOf(old.Past, now)
	}
	return &under
}

// past is what a layout under no fence has to remember of those before it, in case that the limit
// is under one again.
func (r *Register) past(old shard.Layout) *shard.Fence {
	if old.Fence == nil {
		return old.Past
	}
	var past shard.Fence
	now := r.nextEpoch(old)
	for _, s := range old.Specs() {
		past = past.Counting(now, lastsUnder(s))
	}
	past = past.CountingOf(old.Fence, now)
	return &past
}

// lastsUnder is how long what was granted under a limit of a layout may matter: it may be dated a
// window ahead, and counts for a window after that. Where a burst takes longer than a window to
// come, that counts in place of the window.
func lastsUnder(s shard.Spec) time.Duration {
	return 2*time.Duration(max(1, float64(s.Burst)/float64(s.Permits))*float64(s.Window)) + s.Lease
}

// livesOf are the lives that a layout names; nil names none.
func livesOf(l *shard.Layout) (lives []string) {
	if l == nil {
		return nil
	}
	for _, n := range hosts(*l) {
		lives = append(lives, n.Life)
	}
	return lives
}

// admit confirms a membership, and has the nodes of this process in it that it does not know.
func (r *Register) admit(ctx context.Context, f *fence.Fence) error {
	if err := f.Confirm(ctx); err != nil {
		return err
	}
	var names []string
	for _, n := range r.env.Nodes.Roster().Open() {
		names = append(names, n.Name)
	}
	return f.Admit(ctx, names...)
}

// open are the nodes on which shards can be placed: of a limit under a fence those that are in,
// with the lives that they are in.
func (r *Register) open(f *fence.Fence) []shard.Node {
	nodes := r.env.Nodes.Roster().Open()
	if f == nil {
		return nodes
	}
	for i := range nodes { // a list of its own
		nodes[i].Life = f.Life(nodes[i].Name)
	}
	return slices.DeleteFunc(nodes, func(n shard.Node) bool { return n.Life == "" })
}

// inLife returns shards with the lives that their nodes are in.
func inLife(f *fence.Fence, shards []shard.Shard) []shard.Shard {
	if f != nil {
		for i := range shards {
			shards[i].Life = f.Life(shards[i].Node)
		}
	}
	return shards
}

// ReconsiderSoon has the layout follow the nodes in the background if one of them has gone out, or
// is back.
func (r *Register) ReconsiderSoon() {
	if !r.displaced() || !r.reconsidering.CompareAndSwap(false, true) {
		return
	}
	if !r.env.Nodes.Spawn(r.reconsiderOn) {
		r.reconsidering.Store(false)
	}
}

func (r *Register) reconsiderOn(ctx context.Context) {
	defer r.reconsidering.Store(false)
	for pause := reconsiderSpread; clock.Sleep(ctx, chance.N(pause)); pause = min(2*pause, 4*time.Second) {
		if !r.displaced() {
			return
		}
		if f := r.fence(); f != nil { // the limit may have been switched meanwhile
			f.Refresh()
		}
		if !r.env.Fences.Take(ctx) {
			return
		}
		within, cancel := context.WithTimeout(ctx, 2*r.env.Patience())
		err := r.reconsider(within)
		cancel()
		r.env.Fences.Done()
		if errors.Is(err, ErrDeleted) {
			return
		}
		if err != nil {
			r.warn("the layout of a limiter could not follow the nodes", "err", err)
		}
	}
}

// displaced reports whether the layout has shards in a life of a node that is over, or may have
// shards again on one that is back.
func (r *Register) displaced() bool {
	t := r.Limit.Layout()
	if t == nil {
		return false
	}
	f := r.fenceOf(*t)
	return f != nil && f.Generation() > 0 && (ended(f, *t) || r.returned(f, *t))
}

// ended reports whether a live shard, or the shards of keys on a node, are of a life that is over.
func ended(f *fence.Fence, l shard.Layout) bool {
	return slices.ContainsFunc(hosts(l), func(n shard.Node) bool { return f.Bars(n.Name, n.Life) })
}

// hosts are the nodes that have live shards of a limit, or shards of a family's keys.
func hosts(l shard.Layout) (nodes []shard.Node) {
	if l.Keys != nil {
		return l.Keys.Nodes
	}
	for _, s := range l.Live() {
		nodes = append(nodes, shard.Node{Name: s.Node, Life: s.Life})
	}
	return nodes
}

// returned reports whether a node is back from which shares were taken over, this process may place
// shards there, and a limit has nothing left to be moved from there.
func (r *Register) returned(f *fence.Fence, l shard.Layout) bool {
	return (l.Settled || l.Keys != nil) && slices.ContainsFunc(r.open(f), func(n shard.Node) bool {
		return slices.Contains(l.Fence.Lost, n.Name)
	})
}

// reconsider replaces the layout by one over the nodes that are in.
func (r *Register) reconsider(ctx context.Context) error {
	next, err := r.succeed(ctx, func(old shard.Layout) (*shard.Layout, error) {
		f := r.fenceOf(old)
		if f == nil || !ended(f, old) && !r.returned(f, old) {
			return nil, nil // somebody was faster
		}
		same := sameOf(old)
		under := r.lasting(shard.Fence{Places: old.Fence.Places, Lost: lostOf(f, old)},
			&old, same.Spec)
		if r.Family {
			return r.rearrange(old.Under(under))
		}
		next, err := r.known(old).Under(under).Change(r.nextEpoch(old), same.Spec,
			r.arrange(ctx, same, r.participants.Load(), f))
		return &next, err
	})
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
func lostOf(f *fence.Fence, l shard.Layout) []string {
	lost := slices.DeleteFunc(slices.Clone(l.Fence.Lost), func(name string) bool { return f.Life(name) != "" })
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
func (r *Register) givenUpIn(layout shard.Layout, s shard.Shard) (time.Duration, bool) {
	f := r.fenceOf(layout)
	if f == nil || s.Share > 0 {
		return 0, false
	}
	f.Refresh()
	lasts := layout.Fence.Lasts
	if t := r.Limit.Layout(); r.Family && t != nil { // keys may have, or have had, limits of their own
		for _, spec := range t.Specs() {
			lasts = max(lasts, lastsUnder(spec))
		}
	}
	return f.GivenUpIn(s.Node, s.Life, lasts)
}
