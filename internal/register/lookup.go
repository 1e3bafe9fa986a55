package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is about when the record is looked up, and what for.

// Refresh has the record read again in the background in good time.
func (r *Register) Refresh() {
	every := confirmLimitEvery
	if r.Family {
		every = confirmFamilyEvery
	}
	if at := r.askedAt.Load(); at == 0 || r.now()-at > int64(every) {
		r.SyncSoon()
	}
}

// Age is how long the limit is known to exist. That this process has long wanted
// to declare it, while Redis was away, is no reason to think that it did.
func (r *Register) Age() time.Duration {
	born := r.bornAt.Load()
	if born == 0 {
		return 0
	}
	return time.Duration(r.now() - born).Truncate(10 * time.Millisecond) // or each section of a call would tell another
}

// begin waits until no other exchange is under way, at most until ctx ends.
func (r *Register) begin(ctx context.Context) error {
	select {
	case r.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
}

func (r *Register) end() { <-r.token }

// confirmed notes that the anchor held, or was given, a layout of this epoch; sent is when that
// began.
func (r *Register) confirmed(epoch, sent int64) {
	r.belief.Store(&belief{epoch: epoch, until: sent + int64(confirmFor)})
	r.failure.Store(nil)
	r.failedAt.Store(0)
	r.askedAt.Store(r.now())
}

// Behind notes that a shard is at a later epoch than the layout this process works with.
func (r *Register) Behind(epoch int64) {
	for {
		old := r.highest.Load()
		if old >= epoch || r.highest.CompareAndSwap(old, epoch) {
			break
		}
	}
	r.SyncSoon()
}

// SyncSoon looks the record up in the background, unless that is under way.
func (r *Register) SyncSoon() {
	if !r.syncing.CompareAndSwap(false, true) {
		return
	}
	r.env.Nodes.Spawn(func(ctx context.Context) {
		defer r.syncing.Store(false)
		for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			if err := r.bring(ctx); err == nil || errors.Is(err, ErrDeleted) {
				return
			}
			// The spread keeps processes that lost the same node from asking in step.
			if !clock.Sleep(ctx, pause+chance.N(pause)) {
				return
			}
		}
	})
}

// Join makes the limiter usable: as it is stored, as declared, or, while Redis is
// away, as soon as it comes back. It fails only if that can never be.
func (r *Register) Join(ctx context.Context) error {
	err := r.bring(ctx)
	switch {
	case err == nil || errors.Is(err, ErrDeleted): // just now, by another handle
		return err
	case r.env.Closed.Load():
		return ErrClosed
	case errors.Is(err, ErrUnreadable) || errors.Is(err, script.ErrForeignState):
		return r.Limit.FailedAt(r.anchor(), err)
	}
	r.warn("limiter is not declared yet", "err", err)
	r.SyncSoon()
	return nil
}

// bring is sync, and replaces the stored limit if the code declares a higher revision.
func (r *Register) bring(ctx context.Context) error {
	if err := r.sync(ctx); err != nil {
		r.fails(err)
		return err
	}
	t, declared := r.Limit.Layout(), r.Limit.Declared()
	if t == nil {
		return ErrDeleted // just now
	}
	if declared.Revision <= t.Revision {
		return nil
	}
	return r.change(ctx, declared, func(stored shard.Layout) bool { return stored.Revision >= declared.Revision })
}

// fails notes why the limit could not be looked up.
func (r *Register) fails(err error) {
	r.failure.Store(&err)
	r.failedAt.Store(r.elapsed())
}

// Absence tells why the limit is not known yet.
func (r *Register) Absence() error {
	if err := r.failure.Load(); err != nil {
		return *err
	}
	return errNoRecord // it is being looked up for the first time
}

// Look reads the stored layout without declaring anything.
func (r *Register) Look(ctx context.Context) (*shard.Layout, error) {
	ctx, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	found, at := r.survey(ctx)
	layout, err := newest(found)
	if err != nil {
		return nil, err
	}
	if layout == nil {
		if found[at].err != nil {
			return nil, errors.Join(ErrUnavailable, found[at].err)
		}
		return nil, fmt.Errorf("%w: %q", ErrNotFound, r.Name)
	}
	return layout, nil
}
