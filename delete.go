package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/script"
)

// errDeleted ends what only looks at a limit that this process has deleted.
var errDeleted = fmt.Errorf("%w: it was deleted", ErrNotFound)

// deletion is whether a limit was deleted by this process and not declared since. A deleted limit
// has no table. It is declared anew by the next call for permits, never in the background.
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

// Delete removes the limit and its usage from Redis, as it is stored now. Delete what nothing uses
// any more. A limit that is not stored is deleted already: the result is nil, and nothing is
// declared.
//
// Handles of this Client stay usable. The next call for permits, or SetLimit, declares the limit
// anew, as the code declared it, and waits for that like for any answer: at most
// Config.CallTimeout, and only if Redis does not answer in that time the outage policy decides.
// Peek, Participants, Reset and Rebalance declare nothing: they return ErrNotFound until somebody
// has declared the limit again.
//
// Another process that uses the limit is not told. It goes on with the layout it knows and with
// nothing used, as after a loss of memory (see Config.AfterLoss), and it stores that layout again
// when it next reads the record: within 15 seconds of use. Permits that were on their way to a call
// during Delete count as used after it.
//
// The error is a *ShardError for each place that could not be reached. What is left there expires
// by itself unless a process uses it. With ErrUnavailable no place could be reached, and nothing
// has changed.
func (l *Limiter) Delete(ctx context.Context) error {
	if err := l.ownLimit("Delete"); err != nil {
		return err
	}
	return l.core.register.delete(ctx)
}

// delete removes record and shards in one turn, so that no exchange of this process brings the
// record back.
func (r *register) delete(ctx context.Context) error {
	if err := r.begin(ctx); err != nil { // another exchange waits for a node that does not answer
		return errors.Join(ErrUnavailable, err)
	}
	defer r.end()
	c := r.core
	if err := r.find(ctx); err != nil {
		return err
	}
	errs, dropped := r.drop(ctx)
	if !dropped {
		return errors.Join(append([]error{ErrUnavailable}, errs...)...)
	}
	t := c.table.Load()
	if t != nil {
		errs = append(errs,
			c.everyShard(ctx, c.client.patience(),
				func(ctx context.Context, ln *lane.Lane) error { return ln.Drop(ctx) }))
	}
	c.vanish(t)
	return errors.Join(errs...)
}

// find adopts what is stored, so that the shards of the newest layout are deleted. A limit that
// this process does not know, and of which it cannot tell whether it is stored, cannot be deleted.
// It holds the turn.
func (r *register) find(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, r.core.client.patience())
	defer cancel()
	found, at := r.survey(within)
	layout, err := newest(found)
	if err == nil && layout != nil {
		r.undelete() // by another process
		err = r.core.adopt(*layout)
	}
	if err == nil && layout == nil && found[at].err != nil {
		err = found[at].err
	}
	if r.core.table.Load() != nil || layout == nil && err == nil || errors.Is(err, script.ErrForeignState) ||
		errors.Is(err, errUnreadable) {
		return nil // it is known, or not stored, or at least its record can be dropped
	}
	return errors.Join(unavailable(err), context.Cause(ctx))
}

// vanish forgets the limit and all that was known of its shards. The register's turn is held.
func (c *core) vanish(t *table) {
	c.mu.Lock() // what adopts a layout that was on its way sees both or neither
	c.deletion.set(true)
	c.table.Store(nil)
	for _, ln := range c.lanes {
		ln.Forget(c.client.now())
	}
	c.mu.Unlock()
	r := c.register
	r.bornAt.Store(0)
	// What shards and record said is of the layout that is gone. A limit that is declared anew may
	// have a lower epoch, after a clock was set back, and would be taken to be overtaken.
	r.highest.Store(0)
	r.belief.Store(nil)
	r.outdated = 0
	if t != nil {
		c.accounts.open(t)
	}
	c.ahead.Store(nil)
	c.client.forget(c)
	c.register.poke() // the driver has nothing to move
	c.accounts.upset()
}

// inUse is current for a call that wants permits. It declares a limit anew that was deleted, and
// waits for that.
func (c *core) inUse(ctx context.Context) *table {
	t := c.current()
	if t != nil && c.family != nil && !t.layout.Settled && t.limit.Scope != PerParticipant {
		return c.follow(ctx, t)
	}
	if t != nil || c.family != nil {
		return t
	}
	if !c.deletion.pending() {
		return c.table.Load() // it may have been declared just now
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout)
	defer cancel()
	for c.deletion.pending() && c.register.revive(ctx) == nil {
		if t = c.table.Load(); t != nil {
			return t
		} // deleted again
	}
	return c.table.Load()
}

// revive declares a deleted limit anew. Callers share one declaration. It goes on when ctx ends,
// and in the background until Redis answers.
func (r *register) revive(ctx context.Context) error {
	d := &r.core.deletion
	d.mu.Lock()
	v := d.revival
	if v == nil && !d.deleted {
		d.mu.Unlock()
		return nil
	}
	if v == nil {
		v = &revival{done: make(chan struct{})}
		if !r.core.client.spawn(func(ctx context.Context) { r.declareAnew(ctx, v) }) {
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
		return context.Cause(ctx)
	}
}

func (r *register) declareAnew(ctx context.Context, v *revival) {
	d := &r.core.deletion
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
	if v.err != nil && !errors.Is(v.err, errDeleted) {
		r.syncSoon()
	}
}

// undelete makes the limit one that may be declared.
func (r *register) undelete() {
	if r.core.deletion.set(false) {
		r.core.client.remember(r.core)
	}
}

// rejoin learns whether a limit that this process has deleted is stored again, without declaring
// it.
func (r *register) rejoin(ctx context.Context) error {
	if r.core.table.Load() != nil || !r.core.deletion.is() {
		return nil
	}
	return r.sync(ctx)
}

// stored is the table for what looks at a limit or changes what is stored, and does not want
// permits. The error is errDeleted after Delete, unless another process has declared the limit
// again; else it tells of Redis.
func (c *core) stored(ctx context.Context) (*table, error) {
	t := c.current()
	if t == nil && c.family == nil && c.deletion.is() {
		ctx, cancel := context.WithTimeout(ctx, c.client.cfg.CallTimeout)
		defer cancel()
		if err := c.register.rejoin(ctx); err != nil {
			return nil, unreached(err)
		}
		t = c.table.Load()
	}
	if t == nil {
		return nil, unavailable(c.record().absence())
	}
	return t, nil
}

// unreached is ErrUnavailable for what could not be learned of a deleted limit, unless it tells
// more.
func unreached(err error) error {
	if errors.Is(err, errDeleted) || errors.Is(err, ErrClosed) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return unavailable(err)
}
