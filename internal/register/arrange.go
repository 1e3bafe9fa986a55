package register

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// newLimitParticipants is how many participants a new limit is taken to have: nobody has counted
// them yet.
const newLimitParticipants = 16

// arranger knows what a layout of the limit can be in this process.
type arranger struct {
	Subject
	env          *Env
	Highest      atomic.Int64 // the highest epoch that a shard has shown; 0: none
	Participants atomic.Int64 // how many processes use the limit, as last heard; at least 1
}

func (a *arranger) now() int64 { return a.env.Nodes.Clock.Now() }

func (a *arranger) warn(text string, attributes ...any) {
	a.env.Nodes.Log.Warn(text, append([]any{"limiter", a.Name}, attributes...)...)
}

// arrange places the shards of a limit that so many participants are expected to share; under a
// fence over the nodes that are in.
func (a *arranger) arrange(ctx context.Context, want Wanted, participants int64, under *shard.Fence) []shard.Shard {
	open := a.open(under)
	n := want.Shards
	if n == 0 {
		servers := 0
		for _, nd := range open {
			if n := a.env.Nodes.Node(nd.Name); n != nil {
				servers += n.Masters(ctx)
			}
		}
		n = shard.Auto(want.Permits, servers, participants)
	}
	// fewer if there would be no permit, or no part of the burst, for each
	n = shard.Fit(cmp.Or(want.Burst, want.Permits), n)
	return shard.Arrange(a.ID, want.Permits, n, open)
}

// maker makes the layout that follows one that was found.
type maker func(found record.Reading) (shard.Layout, error)

// changed returns what makes of a layout that of the limit as it is wanted.
func (a *arranger) changed(ctx context.Context, layout shard.Layout, want Wanted) maker {
	shards := a.arrange(ctx, want, a.Participants.Load(), layout.Fence)
	return func(found record.Reading) (shard.Layout, error) {
		// While shards obey a later layout, what they hold is unknown.
		layout.Settled = layout.Settled && a.Highest.Load() <= layout.Epoch
		return layout.Change(a.nextEpoch(layout, found), want.Spec, shards, found.Held)
	}
}

// rearranged returns what makes of a layout one of the same limit over the nodes as they are now;
// of a family nil if that is what it is. The record of a family says over which nodes keys are
// placed: no process places a key over its own, because those may differ from another's.
func (a *arranger) rearranged(ctx context.Context, layout shard.Layout) (maker, error) {
	if !a.Family {
		same := Wanted{Spec: layout.Spec, Shards: len(layout.Live())}
		if same.Auto {
			same.Shards = 0
		}
		return a.changed(ctx, layout, same), nil
	}
	nodes, later := layout.Keys.Fit(a.open(layout.Fence))
	switch {
	case !layout.Keys.Over(nodes):
		return func(found record.Reading) (shard.Layout, error) {
			return layout.Rearrange(a.nextEpoch(layout, found), nodes, found.Held)
		}, nil
	case len(later) > 0:
		return nil, shard.ErrTooManyMoves
	}
	return nil, nil
}

// first returns what makes the first layout of the limit, as the code declares it.
func (a *arranger) first(ctx context.Context) (func(epoch int64) (shard.Layout, error), error) {
	want := a.Limit.Wanted()
	under := a.newFence(want)
	if err := a.enter(ctx, under); err != nil {
		return nil, err
	}
	shards := a.arrange(ctx, want, newLimitParticipants, under)
	return func(epoch int64) (shard.Layout, error) {
		if a.Family {
			return shard.NewFamily(under, epoch, want.Spec, shards, a.open(under))
		}
		return shard.New(under, epoch, want.Spec, shards)
	}, nil
}

// nextEpoch is the epoch of a change that follows a layout: later than all that shards have shown,
// and than the time of a place. So if places forget a layout, none that follows has its epoch.
func (a *arranger) nextEpoch(layout shard.Layout, found record.Reading) int64 {
	return max(max(layout.Epoch, a.Highest.Load())+1, found.Now)
}
