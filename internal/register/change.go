package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/internal/record"
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
	step, errs := newDriver(r, next).round(ctx, true)
	switch {
	case step.Superseded:
		if err := r.Ask(ctx, false); err != nil {
			errs = append(errs, Unavailable(fmt.Errorf("shards obey a later change: %w", err)))
		}
	case !step.Done:
		r.driveOn()
	}
	return errors.Join(errs...)
}

// propose writes the layout for a limit as the successor of the stored one,
// again and again while other processes do the same. It returns nil if unless
// says of the stored one that nothing is to be done.
func (r *Register) propose(ctx context.Context, want Wanted, unless func(shard.Layout) bool) (*shard.Layout, error) {
	return r.succeed(ctx, func(old shard.Layout) (maker, error) {
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
		return asked(r.changed(ctx, old, want, f)), nil
	})
}

// Rebalance arranges the same limit over the nodes as they are now, and has the records kept there.
func (r *Register) Rebalance(ctx context.Context) error {
	next, err := r.succeed(ctx, func(old shard.Layout) (maker, error) {
		f, err := r.enter(ctx, old.Fence)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if err := r.move(ctx, f); err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		next, err := r.rearranged(ctx, old, f)
		if err != nil || next == nil {
			return nil, err
		}
		if made, err := next(record.Reading{}); err == nil && made.Settled && !r.Family {
			return nil, nil // everything is where it should be
		}
		return asked(next), nil
	})
	if err != nil || next == nil {
		return err
	}
	return r.putInForce(ctx, *next)
}

// move has the records kept where they are to be: at once that of the membership, and that of the
// limit. So nobody has to move them within a call.
func (r *Register) move(ctx context.Context, f *fence.Fence) error {
	was := r.env.Book.Known()
	if err := r.env.Book.Move(ctx, r.open(f)); err != nil || r.env.Book.Known() == was {
		return err
	}
	if f != nil {
		if err := f.ConfirmSince(ctx, r.elapsed()); err != nil {
			return err
		}
	}
	return r.Ask(ctx, false)
}

// succeed replaces the stored layout by what follow makes of it, nil for nothing, again and again
// while other processes change it too. Of one process only one does this at a time: each attempt
// but one would be in vain.
func (r *Register) succeed(ctx context.Context, follow func(old shard.Layout) (maker, error)) (*shard.Layout, error) {
	select {
	case r.proposing <- struct{}{}:
		defer func() { <-r.proposing }()
	case <-ctx.Done():
		return nil, clock.Ended(ctx)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if err := r.Ask(ctx, false); errors.Is(err, ErrDeleted) {
			return nil, err
		} else if errors.Is(err, record.ErrContended) && ctx.Err() == nil {
			continue
		} else if err != nil && (r.Family || !errors.Is(err, errOvertaken)) {
			// A change of a limit is later than whatever its shards obey, and asks all of them.
			// Keys would settle without shards that the record forgot.
			return nil, errors.Join(ErrUnavailable, err)
		}
		t := r.Limit.Layout()
		if t == nil {
			return nil, ErrDeleted // just now
		}
		next, err := follow(*t)
		if err != nil || next == nil {
			return nil, err
		}
		mine, err := r.replace(ctx, *t, next)
		again := errors.Is(err, errGone) || errors.Is(err, errOvertaken) || errors.Is(err, record.ErrUnsettled) ||
			errors.Is(err, record.ErrContended)
		if err != nil && (!again || ctx.Err() != nil) {
			return nil, err
		}
		if mine && err == nil {
			return r.Limit.Layout(), nil
		}
		if !clock.Sleep(ctx, chance.N(pause)) {
			return nil, clock.Ended(ctx)
		}
	}
}

// settle stores that all capacity has arrived.
func (r *Register) settle(ctx context.Context, layout shard.Layout) error {
	mine, err := r.replace(ctx, layout, func(found record.Reading) (shard.Layout, error) {
		return layout.Settle(found.Held), nil
	})
	if errors.Is(err, errGone) || err == nil && !mine {
		if err = r.Ask(ctx, false); err != nil && !errors.Is(err, ErrDeleted) {
			return Unavailable(err)
		}
	}
	return err
}
