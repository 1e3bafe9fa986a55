package register

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/script"
)

// This file is about limits that this process deletes.

// Delete removes record and shards while it holds the token, so that no exchange of this process
// brings the record back. After it the register does nothing any more: its error is ErrDeleted.
func (r *Register) Delete(ctx context.Context) error {
	if err := r.Begin(ctx); err != nil { // another exchange waits for a node that does not answer
		return errors.Join(ErrUnavailable, err)
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
		return errors.Join(ErrUnavailable, err)
	}
	var errs []error
	if r.Limit.Layout() != nil {
		errs = append(errs, r.Limit.Drop(ctx))
	}
	r.deleted.Store(true) // before the layout goes: what adopts one that was on its way sees that
	r.Limit.Forget()
	r.poke() // the driver has nothing to move
	return errors.Join(errs...)
}

// Deleted reports whether this process has deleted the limit.
func (r *Register) Deleted() bool { return r.deleted.Load() }

// find adopts what is stored, so that the shards of the newest layout are deleted. It fails if this
// process neither knows the limit nor can tell whether it is stored. The token is held.
func (r *Register) find(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, r.env.Nodes.Patience())
	defer cancel()
	layout, err := r.Look(within)
	if err == nil {
		err = r.Limit.Adopt(*layout)
	}
	if r.Limit.Layout() != nil || errors.Is(err, ErrNotFound) || errors.Is(err, script.ErrForeignState) ||
		errors.Is(err, ErrUnreadable) || errors.Is(err, record.ErrUnsettled) {
		return nil // it is known, or not stored, or at least its record can be dropped
	}
	return errors.Join(err, clock.Ended(ctx))
}
