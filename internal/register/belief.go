package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
)

// This file is about what a process may rely on, and for how long.
//
// A shard with state obeys its stored epoch, whatever a process believes. A shard without state has
// only the word of its caller for the share it begins with. So that word is good for one epoch and
// for a time: the record held a layout of that epoch when it was read less than confirmFor ago. A
// call carries the end of that time, in the time of the shard's node, and the script creates no
// share after it, however long the call was on its way. Whoever replaces the record can tell from
// that when the last share of the old layout can have come into being.
const (
	confirmFor = node.Relied
	// A family's keys come and go all the time, so its record is read again before that is over.
	confirmFamilyEvery = confirmFor / 3
	// The record of a limit is read to be counted as a participant and to keep it alive.
	confirmLimitEvery = 15 * time.Second
	// confirmPause is for how long a record that could not be read is not asked for again by calls.
	confirmPause = time.Second
	// failedFor is for how long calls to shards with state do without a record that could not be
	// read. Meanwhile it is read on in the background.
	failedFor = 3 * time.Second
)

// belief is that the limit's record holds a layout of this epoch.
type belief struct {
	epoch int64
	until int64 // on the client's clock that goes on while the machine is suspended
}

// Believed returns until when the epoch may be relied on, 0 if it may not: also if a shard has told
// of a later one.
func (r *Register) Believed(epoch, elapsed int64) int64 {
	b := r.belief.Load()
	if b == nil || b.epoch != epoch || r.highest.Load() > epoch || elapsed >= b.until {
		return 0
	}
	return b.until
}

// Expired tells that the record was last seen to hold a layout too long ago to rely on that. It is
// false where no layout was ever seen: then there is nothing to rely on. So it is while the record
// is known to be out of reach: calls would go on without it all the same.
func (r *Register) Expired(elapsed int64) bool {
	b := r.belief.Load()
	if b == nil || elapsed < b.until {
		return false
	}
	failed := r.failedAt.Load()
	return failed == 0 || elapsed-failed >= int64(failedFor)
}

// Doubt has the layout counted as confirmed too long ago. It is for tests.
func (r *Register) Doubt() {
	r.belief.Store(nil)
	r.askedAt.Store(0)
}

// Confirm makes sure that the layout of this process is the one in the record, or becomes it, at
// most until ctx ends. The error is errBusy if most of its time went by while others of this
// process held the token: that tells nothing of Redis.
func (r *Register) Confirm(ctx context.Context) error { return r.ConfirmSince(ctx, 0) }

// ConfirmSince is Confirm by a read that began at that time elapsed, or later.
func (r *Register) ConfirmSince(ctx context.Context, since int64) error {
	if r.current(since) {
		return nil
	}
	if failed := r.failedAt.Load(); failed != 0 && r.elapsed()-failed < int64(confirmPause) {
		r.SyncSoon()
		return r.Absence()
	}
	began := r.now()
	if err := r.begin(ctx); err != nil {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	defer r.end()
	if until, ok := ctx.Deadline(); ok && time.Duration(r.now()-began) > time.Until(until) {
		return errBusy // what is left would end a read of a record that answers
	}
	if r.current(since) { // another call has done it meanwhile
		return nil
	}
	err := r.syncHolding(ctx)
	if err != nil && ctx.Err() == nil {
		r.fails(err)
	}
	return err
}

// ConfirmWithin is Confirm for at most so long, for a call that goes on without if need be. A
// record that did not answer in that time is noted as one that failed: else every call would wait
// for as long. If ctx ends before, that tells nothing.
func (r *Register) ConfirmWithin(ctx context.Context, most time.Duration) error {
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := r.Confirm(within)
	if err != nil && !errors.Is(err, errBusy) && within.Err() != nil && ctx.Err() == nil {
		r.fails(err)
		r.SyncSoon()
	}
	return err
}

// ConfirmForAll is Confirm on behalf of all calls that were denied under a layout that is not the
// last one. It reports false if another call is about it.
func (r *Register) ConfirmForAll(ctx context.Context) bool {
	if !r.informing.CompareAndSwap(false, true) {
		return false
	}
	defer r.informing.Store(false)
	_ = r.Confirm(ctx) // the denial stands
	return true
}

// current reports whether the layout of this process may be relied on, since a read that began at
// that time elapsed or later.
func (r *Register) current(since int64) bool {
	t := r.Limit.Layout()
	if t == nil {
		return false
	}
	until := r.Believed(t.Epoch, r.elapsed())
	return until != 0 && until-int64(confirmFor) >= since
}
