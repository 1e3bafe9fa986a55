package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about when the record is looked up, and what for.

// Age is how long the limit is known to exist. That this process has long wanted
// to declare it, while Redis was away, is no reason to think that it did.
func (r *Register) Age() time.Duration {
	born := r.bornAt.Load()
	if born == 0 {
		return 0
	}
	return time.Duration(r.now() - born).Truncate(10 * time.Millisecond) // or each section of a call would tell another
}

// Behind notes that a shard is at a later epoch than the layout this process works with.
func (r *Register) Behind(epoch int64) {
	for {
		old := r.highest.Load()
		if old >= epoch || r.highest.CompareAndSwap(old, epoch) {
			break
		}
	}
	r.Soon()
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
	if mistaken := r.env.Nodes.Mistaken(); mistaken != nil && ctx.Err() == nil {
		return mistaken
	}
	r.warn("limiter is not declared yet", "err", err)
	r.Soon()
	return nil
}

// revise replaces the stored limit if the code declares a higher revision.
func (r *Register) revise(ctx context.Context) error {
	t, declared := r.Limit.Layout(), *r.declared.Load()
	if t == nil {
		return ErrDeleted // just now
	}
	if declared.Revision <= t.Revision {
		return nil
	}
	return r.change(ctx, declared, func(stored shard.Layout) bool { return stored.Revision >= declared.Revision })
}

// Absence tells why the limit is not known yet.
func (r *Register) Absence() error {
	return cmp.Or(r.Failure(), errNoRecord) // it is being looked up for the first time
}

// Look reads the stored layout without declaring anything.
func (r *Register) Look(ctx context.Context) (*shard.Layout, error) {
	ctx, cancel := context.WithTimeout(ctx, r.env.Nodes.Patience())
	defer cancel()
	got, err := r.Peek(ctx)
	switch {
	case errors.Is(err, ErrUnreadable):
		return nil, err
	case err != nil:
		return nil, errors.Join(ErrUnavailable, err)
	case !got.Exists:
		return nil, fmt.Errorf("%w: %q", ErrNotFound, r.Name)
	}
	return r.decode(got.Value)
}
