package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Join makes the limiter usable: as it is stored, as declared, or, while Redis is
// away, as soon as it comes back. It fails only if that can never be.
func (r *Register) Join(ctx context.Context) error {
	err := r.Ask(ctx, false)
	if err == nil {
		err = r.revise(ctx)
	}
	switch {
	case err == nil || errors.Is(err, ErrDeleted): // just now, by another handle
		return err
	case r.env.Closed.Load():
		return ErrClosed
	case errors.Is(err, ErrUnreadable) || errors.Is(err, script.ErrForeignState):
		return err
	}
	if mistaken := r.env.Nodes.Mistaken(r.env.Book.Known().Names); mistaken != nil && ctx.Err() == nil {
		return mistaken
	}
	r.warn("limiter is not declared yet", "err", err)
	r.Soon()
	return nil
}

// lookUp is what the process does in the background.
func (r *Register) lookUp(ctx context.Context) error {
	err := r.Ask(ctx, true)
	if err == nil {
		err = r.revise(ctx)
	}
	if err == nil {
		err = r.reconsider(ctx)
	}
	if errors.Is(err, ErrDeleted) {
		return nil
	}
	return err
}

// revise replaces the stored limit if the code declares a higher revision.
func (r *Register) revise(ctx context.Context) error {
	t, declared := r.Limit.Layout(), r.Limit.Wanted()
	if t == nil {
		return ErrDeleted // just now
	}
	if declared.Revision <= t.Revision {
		return nil
	}
	return r.succeed(ctx, func(old shard.Layout) (maker, error) {
		if old.Revision >= declared.Revision {
			return nil, nil
		}
		return r.become(ctx, declared, old), nil
	})
}

// Change stores a new layout for the limit and starts the move of its capacity.
// It returns when every shard that can be reached has adopted the layout or a later one.
func (r *Register) Change(ctx context.Context, want Wanted) error {
	return r.succeed(ctx, func(old shard.Layout) (maker, error) {
		return r.become(ctx, want, old), nil
	})
}

// become makes a layout the one of the limit as it is wanted.
func (r *Register) become(ctx context.Context, want Wanted, old shard.Layout) maker {
	if r.Family {
		want.Shards, want.Auto = 1, false
	}
	want.Revision = max(want.Revision, old.Revision) // else code of that revision would undo the change
	return r.changed(ctx, old, want)
}

// Rebalance arranges the same limit over the nodes as they are now, and has the records kept there.
func (r *Register) Rebalance(ctx context.Context) error {
	return r.succeed(ctx, func(old shard.Layout) (maker, error) {
		if err := r.env.Book.Move(ctx, r.open(old.Fence)); err != nil {
			return nil, Unavailable(err)
		}
		next, err := r.rearranged(ctx, old)
		if err != nil || next == nil {
			return nil, err
		}
		if made, err := next(record.Reading{}); err == nil && made.Settled && !r.Family {
			return nil, nil // everything is where it should be
		}
		return next, nil
	})
}

// follower makes what follows a layout: nil for nothing.
type follower func(old shard.Layout) (maker, error)

// succeed replaces the stored layout by what follows it, and puts that in force.
func (r *Register) succeed(ctx context.Context, follow follower) error {
	next, err := r.propose(ctx, follow)
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
	step, errs := r.round(ctx, newMover(r.Reader, r.Shards, next), true)
	switch {
	case step.Superseded:
		if err := r.Ask(ctx, false); err != nil {
			errs = append(errs, Unavailable(fmt.Errorf("shards obey a later change: %w", err)))
		}
	case !step.Done:
		r.drive(next.Epoch)
	}
	return errors.Join(errs...)
}

// propose stores the layout that follow makes of the stored one, again and again while other
// processes change it too; nil: nothing is to be done. Of one process only one does this at a time:
// each attempt but one would be in vain.
func (r *Register) propose(ctx context.Context, follow follower) (*shard.Layout, error) {
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
			return nil, Unavailable(err)
		}
		t := r.Limit.Layout()
		if t == nil {
			return nil, ErrDeleted // just now
		}
		if err := r.enter(ctx, t.Fence); err != nil {
			return nil, err
		}
		next, err := follow(*t)
		if err != nil || next == nil {
			return nil, err
		}
		mine, err := r.replace(ctx, *t, next)
		again := errors.Is(err, errGone) || errors.Is(err, errOvertaken) || errors.Is(err, record.ErrUnsettled) ||
			errors.Is(err, record.ErrContended)
		if err != nil && !again {
			return nil, err
		}
		if mine && err == nil {
			return r.Limit.Layout(), nil
		}
		if clock.Sleep(ctx, chance.N(pause)) {
			continue
		}
		if err != nil {
			return nil, Unavailable(fmt.Errorf("%w: %w", err, clock.Ended(ctx)))
		}
		return nil, clock.Ended(ctx)
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

// Delete removes the record and, by drop, the shards while it holds the token, so that no exchange
// of this process brings the record back. After it the register does nothing any more: its error is
// ErrDeleted.
func (r *Register) Delete(ctx context.Context, drop func(context.Context) error) error {
	if err := r.Begin(ctx); err != nil { // another exchange waits for a node that does not answer
		return Unavailable(err)
	}
	defer r.End()
	if r.Deleted() {
		return ErrDeleted
	}
	if err := r.find(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, r.env.Nodes.Patience())
	defer cancel()
	if err := r.Watch.Delete(within); err != nil {
		return Unavailable(err)
	}
	var errs []error
	if r.Limit.Layout() != nil {
		errs = append(errs, drop(ctx))
	}
	r.deleted.Store(true) // before the layout goes: what adopts one that was on its way sees that
	return errors.Join(errs...)
}

// find adopts what is stored, so that the shards of the newest layout are deleted. It fails if this
// process neither knows the limit nor can tell whether it is stored. The token is held.
func (r *Register) find(ctx context.Context) error {
	layout, err := r.Look(ctx)
	if err == nil {
		err = r.Limit.Adopt(*layout)
	}
	if r.Limit.Layout() != nil || errors.Is(err, ErrNotFound) || errors.Is(err, script.ErrForeignState) ||
		errors.Is(err, ErrUnreadable) || errors.Is(err, record.ErrUnsettled) {
		return nil // it is known, or not stored, or at least its record can be dropped
	}
	return errors.Join(err, clock.Ended(ctx))
}

// replace replaces a layout by the next if the record still holds it, and has the process work with
// what it holds then. mine tells whether that is what next made.
func (r *Register) replace(ctx context.Context, old shard.Layout, next maker) (mine bool, err error) {
	if err := r.Begin(ctx); err != nil {
		return false, Unavailable(err)
	}
	defer r.End()
	if err := r.begins(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.env.Nodes.Patience())
	defer cancel()
	made := "" // by an earlier round, which may have been completed all the same
	_, err = r.Watch.Change(ctx, func(found record.Reading) (string, error) {
		if !found.Exists {
			return "", errGone
		}
		if mine = found.Value == made; mine {
			return made, nil
		}
		layout, err := r.decode(found.Value)
		if err != nil {
			return "", err
		}
		if layout.Epoch != old.Epoch || layout.Settled != old.Settled {
			return found.Value, nil
		}
		following, err := next(found)
		if err != nil {
			return "", err
		}
		if made, err = r.encode(&following); err == nil && !following.Settled {
			r.leads.Store(following.Epoch)
		}
		mine = err == nil
		return made, err
	})
	if errors.Is(err, record.ErrNoMajority) || errors.Is(err, record.ErrContended) ||
		errors.Is(err, record.ErrUnsettled) {
		err = Unavailable(err)
	}
	return mine, err
}

// errGone tells that the record was deleted, or lost, before it could be replaced.
var errGone = errors.New("the record of the limit was deleted")
