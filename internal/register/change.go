package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/shard"
)

// Change stores a new layout for the limit and starts the move of its capacity.
// It returns when every shard that can be reached has adopted the layout or a later one.
func (r *Register) Change(ctx context.Context, want Wanted) error { return r.change(ctx, want, nil) }

func (r *Register) change(ctx context.Context, want Wanted, unless func(shard.Layout) bool) error {
	next, err := r.propose(ctx, want, unless)
	if err != nil || next == nil {
		return err
	}
	return r.putInForce(ctx, *next)
}

// putInForce tells every shard of a new layout, and starts the move of its capacity. It returns nil
// when all of them have adopted it, or a later one that the record knows.
func (r *Register) putInForce(ctx context.Context, next shard.Layout) error {
	if next.Settled {
		return nil // nothing moves
	}
	step, errs := r.step(ctx, next)
	switch {
	case step.Superseded:
		if err := r.sync(ctx); err != nil {
			errs = append(errs, Unavailable(fmt.Errorf("shards obey a later change: %w", err)))
		}
	case !step.Done:
		r.driveOn(true)
	}
	return errors.Join(errs...)
}

// propose writes the layout for a limit as the successor of the stored one,
// again and again while other processes do the same. It returns nil if unless
// says of the stored one that nothing is to be done.
func (r *Register) propose(ctx context.Context, want Wanted, unless func(shard.Layout) bool) (*shard.Layout, error) {
	return r.succeed(ctx, func(old shard.Layout) (*shard.Layout, error) {
		if unless != nil && unless(old) {
			return nil, nil
		}
		if r.Family {
			want.Shards, want.Auto = 1, false
		}
		want.Revision = max(want.Revision, old.Revision) // else code of that revision would undo the change
		f, err := r.enter(ctx, old.Fence)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		from := r.known(old)
		if r.Family {
			if from.Keys, err = r.keysFor(old, want.Spec, old.Keys.Nodes); err != nil {
				return nil, err
			}
		}
		next, err := from.Change(r.nextEpoch(old), want.Spec, r.arrange(ctx, want, r.participants.Load(), f))
		return &next, err
	})
}

// Rebalance arranges the same limit over the nodes as they are now.
func (r *Register) Rebalance(ctx context.Context) error {
	next, err := r.succeed(ctx, func(old shard.Layout) (*shard.Layout, error) {
		f, err := r.enter(ctx, old.Fence)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if r.Family {
			return r.rearrange(old)
		}
		same := sameOf(old)
		next, err := r.known(old).Change(r.nextEpoch(old), same.Spec, r.arrange(ctx, same, r.participants.Load(), f))
		if err == nil && next.Settled && r.anchorFor(old) == old.Anchor {
			return nil, nil // everything is where it should be
		}
		return &next, err
	})
	if err != nil || next == nil {
		return err
	}
	return r.putInForce(ctx, *next)
}

// sameOf is the limit of a layout, to be arranged anew.
func sameOf(old shard.Layout) Wanted {
	same := Wanted{Spec: old.Spec(), Shards: len(old.Live())}
	if same.Auto {
		same.Shards = 0
	}
	return same
}

// nextEpoch is the epoch of a change that follows a layout: the time of the node that anchors it.
// So a change is later than every one that a lost record forgot, and no two have the same epoch.
func (r *Register) nextEpoch(layout shard.Layout) int64 {
	return max(layout.Epoch+1, r.highest.Load()+1, r.clock.Load())
}

// known is the layout as far as it is in force: while shards obey a later one, what they hold is
// unknown.
func (r *Register) known(layout shard.Layout) shard.Layout {
	layout.Settled = layout.Settled && r.highest.Load() <= layout.Epoch
	return layout
}

// succeed replaces the stored layout by what follow makes of it, nil for nothing, again and again
// while other processes change it too. Of one process only one does this at a time: each attempt
// but one would be in vain.
func (r *Register) succeed(ctx context.Context,
	follow func(old shard.Layout) (*shard.Layout, error)) (*shard.Layout, error) {
	select {
	case r.proposing <- struct{}{}:
		defer func() { <-r.proposing }()
	case <-ctx.Done():
		return nil, clock.Ended(ctx)
	}
	if f := r.fence(); f != nil {
		if err := f.Follow(ctx, livesOf(r.Limit.Layout())...); err != nil {
			// else this process may be the one that is cut off
			return nil, errors.Join(ErrUnavailable, err)
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		sent := r.elapsed()
		if err := r.sync(ctx); errors.Is(err, ErrDeleted) {
			return nil, err
		} else if err != nil && (r.Family || !errors.Is(err, errOvertaken)) {
			// A change of a limit is later than whatever its shards obey, and asks all of them.
			// Keys would settle without shards that the record forgot.
			return nil, errors.Join(ErrUnavailable, err)
		}
		t := r.Limit.Layout()
		if t == nil {
			return nil, ErrDeleted // just now
		}
		old := r.asTended(*t)
		next, err := follow(old)
		if err != nil || next == nil {
			return nil, err
		}
		*next = next.AnchoredAt(r.anchorFor(old), old)
		agreed, err := r.store(ctx, old, *next)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if agreed {
			stored := r.asStored(*next)
			return &stored, r.adoptAs(stored, sent)
		}
		if !clock.Sleep(ctx, chance.N(pause)) {
			return nil, clock.Ended(ctx)
		}
	}
}

// driveSoon takes part in a change that another process began: rarely, and the
// more rarely the more processes there are, because any of them will do.
func (r *Register) driveSoon() { r.driveOn(false) }

// step looks at every shard, raises what may be raised, and settles the layout
// when all capacity has arrived. Any number of processes may do this at once.
func (r *Register) step(ctx context.Context, layout shard.Layout) (shard.Step, []error) {
	return newDriver(r, layout).round(ctx, true)
}

// settle stores that all capacity has arrived.
func (r *Register) settle(ctx context.Context, layout shard.Layout) error {
	settled := layout.Settle()
	sent := r.elapsed()
	agreed, err := r.store(ctx, layout, settled)
	if err == nil && !agreed {
		err = r.sync(ctx)
	}
	if err != nil && !errors.Is(err, ErrDeleted) {
		return errors.Join(ErrUnavailable, err)
	}
	if err != nil || !agreed {
		return err
	}
	return r.adoptAs(settled, sent)
}

// adoptAs makes a layout that this process has stored the one it works with; sent is when it began
// to.
func (r *Register) adoptAs(layout shard.Layout, sent int64) error {
	if err := r.Limit.Adopt(layout); err != nil {
		return err
	}
	r.confirmed(layout.Epoch, sent)
	return nil
}

// store replaces a layout by the next, as an exchange of its own, and reports whether that may be
// used.
func (r *Register) store(ctx context.Context, old, next shard.Layout) (agreed bool, err error) {
	if err := r.begin(ctx); err != nil {
		return false, err
	}
	defer r.end()
	// Others may have replaced what was read last. Where nothing was, it must still be nothing.
	r.strict = false
	maps.DeleteFunc(r.there, func(_ shard.Location, epoch int64) bool { return epoch > 0 })
	_, agreed, err = r.write(ctx, old.Anchor, old.Epoch, next)
	return agreed, err
}
