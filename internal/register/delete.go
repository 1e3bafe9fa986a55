package register

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// This file is about limits that this process deletes.

// Delete removes record and shards while it holds the token, so that no exchange of this process
// brings the record back. After it the register does nothing any more: its error is ErrDeleted.
func (r *Register) Delete(ctx context.Context) error {
	if err := r.begin(ctx); err != nil { // another exchange waits for a node that does not answer
		return errors.Join(ErrUnavailable, err)
	}
	defer r.end()
	if r.Deleted() {
		return ErrDeleted
	}
	if err := r.find(ctx); err != nil {
		return err
	}
	errs, dropped := r.drop(ctx)
	if !dropped {
		return errors.Join(append([]error{ErrUnavailable}, errs...)...)
	}
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
	within, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	found, at := r.survey(within)
	layout, err := newest(found)
	if err == nil && layout != nil {
		err = r.Limit.Adopt(*layout)
	}
	if err == nil && layout == nil && found[at].err != nil {
		err = found[at].err
	}
	if r.Limit.Layout() != nil || layout == nil && err == nil || errors.Is(err, script.ErrForeignState) ||
		errors.Is(err, ErrUnreadable) {
		return nil // it is known, or not stored, or at least its record can be dropped
	}
	return errors.Join(Unavailable(err), clock.Ended(ctx))
}

// drop removes the record everywhere, and reports whether any place of it could be reached. The
// token is held.
func (r *Register) drop(ctx context.Context) (errs []error, reached bool) {
	ctx, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	for _, p := range r.everyPlace() {
		err := r.places.drop(ctx, p)
		reached = reached || err == nil || node.IsAnswer(err)
		if err != nil {
			errs = append(errs, r.Limit.FailedAt(p, err))
		}
	}
	return errs, reached
}
