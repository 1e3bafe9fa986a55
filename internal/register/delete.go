package register

import (
	"context"
	"errors"
	"sync"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// This file is about limits that this process deletes, and declares again.

// deletion is whether a limit was deleted by this process and not declared since. A deleted limit
// has no layout. It is declared anew by the next call for permits, never in the background.
type deletion struct {
	mu      sync.Mutex
	deleted bool
	revival *revival // under way; nil: none
}

// revival is one new declaration, for which any number of calls wait.
type revival struct {
	done chan struct{}
	err  error // valid once done is closed
}

func (d *deletion) is() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleted
}

// pending reports whether the next call for permits has to wait for a declaration.
func (d *deletion) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleted || d.revival != nil
}

// set reports whether that changed anything.
func (d *deletion) set(deleted bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.deleted
	d.deleted = deleted
	return was != deleted
}

// Delete removes record and shards while it holds the token, so that no exchange of this process
// brings the record back.
func (r *Register) Delete(ctx context.Context) error {
	if err := r.begin(ctx); err != nil { // another exchange waits for a node that does not answer
		return errors.Join(ErrUnavailable, err)
	}
	defer r.end()
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
	r.vanish()
	return errors.Join(errs...)
}

// find adopts what is stored, so that the shards of the newest layout are deleted. It fails if this
// process neither knows the limit nor can tell whether it is stored. The token is held.
func (r *Register) find(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	found, at := r.survey(within)
	layout, err := newest(found)
	if err == nil && layout != nil {
		r.undelete() // by another process
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

// vanish forgets the limit and all that was known of it. The token is held.
func (r *Register) vanish() {
	r.deletion.set(true) // before the layout goes: what adopts one that was on its way sees that
	r.Limit.Forget()
	r.bornAt.Store(0)
	// What shards and record said is of the layout that is gone. A limit that is declared anew may
	// have a lower epoch, after a clock was set back, and would be taken to be overtaken.
	r.highest.Store(0)
	r.belief.Store(nil)
	r.outdated = 0
	r.poke() // the driver has nothing to move
}

// Deleted reports whether this process has deleted the limit, and nobody has declared it since.
func (r *Register) Deleted() bool { return r.deletion.is() }

// Vacant reports whether the next call for permits has to wait for a declaration.
func (r *Register) Vacant() bool { return r.deletion.pending() }

// Revive declares a deleted limit anew. Callers share one declaration. It goes on when ctx ends,
// and in the background until Redis answers.
func (r *Register) Revive(ctx context.Context) error {
	d := &r.deletion
	d.mu.Lock()
	v := d.revival
	if v == nil && !d.deleted {
		d.mu.Unlock()
		return nil
	}
	if v == nil {
		v = &revival{done: make(chan struct{})}
		if !r.env.Nodes.Spawn(func(ctx context.Context) { r.declareAnew(ctx, v) }) {
			d.mu.Unlock()
			return ErrClosed
		}
		d.revival = v
	}
	d.mu.Unlock()
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
}

func (r *Register) declareAnew(ctx context.Context, v *revival) {
	d := &r.deletion
	v.err = r.begin(ctx)
	if v.err == nil { // not before: a Delete may be under way
		r.undelete()
		r.end()
		v.err = r.bring(ctx)
	}
	d.mu.Lock()
	d.revival = nil
	d.mu.Unlock()
	close(v.done)
	if v.err != nil && !errors.Is(v.err, ErrDeleted) {
		r.SyncSoon()
	}
}

// undelete makes the limit one that may be declared.
func (r *Register) undelete() {
	if r.deletion.set(false) {
		r.Limit.Remember()
	}
}

// Rejoin learns whether a limit that this process has deleted is stored again, without declaring
// it.
func (r *Register) Rejoin(ctx context.Context) error {
	if r.Limit.Layout() != nil || !r.deletion.is() {
		return nil
	}
	return r.sync(ctx)
}
