package register

import (
	"cmp"
	"context"

	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// newLimitParticipants is how many participants a new limit is taken to have: nobody has counted
// them yet.
const newLimitParticipants = 16

func (r *Reader) now() int64 { return r.env.Nodes.Clock.Now() }

func (r *Reader) warn(text string, attributes ...any) {
	r.env.Nodes.Log.Warn(text, append([]any{"limiter", r.Name}, attributes...)...)
}

// arrange places the shards of a limit that so many participants are expected to share; under a
// fence over the nodes that are in.
func (r *Reader) arrange(ctx context.Context, want Wanted, participants int64, under *shard.Fence) []shard.Shard {
	open := r.open(under)
	n := want.Shards
	if n == 0 {
		servers := 0
		for _, nd := range open {
			if n := r.env.Nodes.Node(nd.Name); n != nil {
				servers += n.Masters(ctx)
			}
		}
		n = min(shard.Auto(want.Permits, servers, participants), shard.MaxLive)
	}
	// fewer if there would be no permit, or no part of the burst, for each
	n = shard.Fit(cmp.Or(want.Burst, want.Permits), n, shard.Slots)
	return shard.Arrange(r.ID, want.Permits, n, open)
}

// maker makes the layout that follows one that was found.
type maker func(found record.Reading) (shard.Layout, error)

// changed makes a layout the one of a limit as it is wanted.
func (r *Reader) changed(ctx context.Context, layout shard.Layout, want Wanted) maker {
	shards := r.arrange(ctx, want, r.Participants.Load(), layout.Fence)
	return func(found record.Reading) (shard.Layout, error) {
		// While shards obey a later layout, what they hold is unknown.
		layout.Settled = layout.Settled && r.Highest.Load() <= layout.Epoch
		return layout.Change(r.nextEpoch(layout, found), want.Spec, shards, found.Held)
	}
}

// rearranged makes a layout one of the same limit over the nodes as they are now; nil if that is
// what it is. The record of a family says over which nodes keys are placed: no process places a key
// over its own, because those may differ from another's.
func (r *Reader) rearranged(ctx context.Context, layout shard.Layout) (maker, error) {
	if !r.Family {
		same := Wanted{Spec: layout.Spec, Shards: len(layout.Live())}
		if same.Auto {
			same.Shards = 0
		}
		return r.changed(ctx, layout, same), nil
	}
	nodes, later := layout.Keys.Fit(r.open(layout.Fence))
	switch {
	case !layout.Keys.Over(nodes):
		return func(found record.Reading) (shard.Layout, error) {
			return layout.Rearrange(r.nextEpoch(layout, found), nodes, found.Held)
		}, nil
	case len(later) > 0:
		return nil, shard.ErrTooManyMoves
	}
	return nil, nil
}

// first returns what makes the first layout of the limit, as the code declares it.
func (r *Reader) first(ctx context.Context) (func(epoch int64) (shard.Layout, error), error) {
	want := r.Limit.Wanted()
	under := r.newFence(want)
	if err := r.enter(ctx, under); err != nil {
		return nil, err
	}
	shards := r.arrange(ctx, want, newLimitParticipants, under)
	return func(epoch int64) (shard.Layout, error) {
		if r.Family {
			return shard.NewFamily(under, epoch, want.Spec, shards, r.open(under))
		}
		return shard.New(under, epoch, want.Spec, shards)
	}, nil
}

// nextEpoch is the epoch of a change that follows a layout: later than all that shards have shown,
// and than the time of a place. So if places forget a layout, none that follows has its epoch.
func (r *Reader) nextEpoch(layout shard.Layout, found record.Reading) int64 {
	return max(max(layout.Epoch, r.Highest.Load())+1, found.Now)
}
