package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is one exchange with the places of a register's record: it reads them all, and declares
// or repairs what it has to.

// sync learns the layout from the record: joins it, declares it if there is
// none, and mends the record where it was lost.
func (r *Register) sync(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	return r.syncHolding(ctx)
}

// syncHolding is sync for whoever holds the token.
func (r *Register) syncHolding(ctx context.Context) error {
	if r.Deleted() {
		return ErrDeleted
	}
	// from here on: waiting for the token is no fault of Redis
	ctx, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	until := r.now() + int64(newFor)
	for round := 0; ; round++ {
		r.strict = r.now() < until
		agreed, err := r.exchange(ctx)
		if agreed || err != nil {
			return err
		}
		if !r.strict && round >= agreeRounds {
			return errDisputed
		}
		if !clock.Sleep(ctx, chance.N(time.Duration(round+1)*2*time.Millisecond)) {
			return errDisputed
		}
	}
}

// exchange is one round of sync. If it finds that the places of the record do not agree, it does
// what it can about that and reports false: only the next round can tell.
func (r *Register) exchange(ctx context.Context) (agreed bool, err error) {
	r.lookAround(ctx)
	sent, heard := r.elapsed(), r.highest.Load() // what shards show later may be in the record by then
	found, at := r.survey(ctx)
	anchor := &found[at]
	if anchor.err == nil {
		r.clock.Store(anchor.record.Now)
	}
	layout, err := newest(found)
	if err != nil {
		return false, err
	}
	agreed = true
	r.strict = r.strict && isNew(found)
	switch {
	case layout == nil && anchor.err != nil:
		return false, fmt.Errorf("%w: node %s: %w", errNoRecord, anchor.place.Node, anchor.err)
	case r.strict && !allRead(found):
		return false, nil
	case layout == nil:
		layout, agreed, err = r.declare(ctx, anchor)
	case errors.Is(anchor.err, node.ErrStranger):
		agreed, err = r.takeOver(ctx, found, *layout)
	case anchor.err == nil:
		if layout, agreed, err = r.mend(ctx, found, at, layout, heard); agreed && err == nil {
			layout, agreed, err = r.tend(ctx, found, anchor, layout)
		}
	}
	if err != nil || !agreed {
		return false, err
	}
	r.noteAge(found)
	if err := r.Limit.Adopt(*layout); err != nil {
		return false, err
	}
	if anchor.err != nil {
		return false, fmt.Errorf("the anchor of the layout: %w", anchor.err) // joined, but to be confirmed
	}
	r.Count(anchor.record.Participants)
	if n := r.env.Nodes.Node(anchor.place.Node); n != nil { // it told alone what is relied on since sent
		n.ServerClock(anchor.place.Slot).LearnSince(sent, r.elapsed(), anchor.record.Now)
	}
	r.confirmed(layout.Epoch, sent)
	if !layout.Settled {
		r.driveSoon()
	}
	return true, nil
}

// declare writes the first record of the limit: what this process still knows
// of it if the record was lost, else what the code declares. If another process
// was faster, its record is the result.
func (r *Register) declare(ctx context.Context, anchor *reading) (*shard.Layout, bool, error) {
	var layout shard.Layout
	if t := r.Limit.Layout(); t != nil {
		layout = *t
		if layout.Fence != nil {
			// A later one may have been lost. Shards that obey it have to show: so this one is the
			// next, and not the latest.
			var err error
			if layout, err = layout.Renumber(layout.Epoch + 1); err != nil {
				return nil, false, err
			}
		}
	} else {
		want := r.Limit.Declared()
		under := r.newFence()
		f, err := r.enter(ctx, under)
		if err != nil {
			return nil, false, err
		}
		layout, err = shard.New(under, anchor.record.Now, want.Spec, r.arrange(ctx, want, newLimitParticipants, f))
		if err != nil {
			return nil, false, err
		}
		if r.Family {
			layout.Keys = r.firstKeys(want, f)
		}
	}
	layout = layout.AnchoredAt(anchor.place, layout)
	_, agreed, err := r.write(ctx, anchor.place, 0, layout)
	return &layout, agreed, err
}

// mend repairs the record: an anchor or copy that lost it, two anchors, or a record that is older
// than what this process, or a shard, knows. heard is the highest epoch that a shard had shown
// before the record was read.
func (r *Register) mend(ctx context.Context, found []reading, at int, layout *shard.Layout,
	heard int64) (*shard.Layout, bool, error) {
	anchor := &found[at]
	best, others := r.foremost(found, *layout)
	rivals := rivalsOf(found, *layout)
	if len(rivals)+len(others) > 0 {
		return nil, false, r.merge(ctx, best, anchor, rivals, others)
	}
	if heard > layout.Epoch {
		next, err := r.recover(*layout, heard)
		if err != nil {
			return nil, false, err
		}
		_, agreed, err := r.write(ctx, anchor.place, anchor.record.Epoch, next)
		return &next, agreed, err
	}
	r.outdated = 0
	if !anchor.record.Exists || anchor.record.Epoch < layout.Epoch {
		_, agreed, err := r.write(ctx, anchor.place, anchor.record.Epoch, *layout)
		return layout, agreed, err
	}
	homes := r.homes()
	for i, copied := range found {
		if i != at && copied.lags(anchor.record, homes) {
			return layout, r.writeCopies(ctx, *layout), nil
		}
	}
	return layout, true, nil
}

// lags reports whether a copy is older than the anchor's, or missing where the record is kept. On a
// node that drains, one that is missing is to be so.
func (f *reading) lags(anchor script.Record, homes []shard.Location) bool {
	if f.err != nil {
		return false
	}
	return newer(anchor, f.record) && (f.record.Exists || slices.Contains(homes, f.place))
}

// recover makes the successor of a layout that no shard obeys any more, if those who may know a
// later one have had their time. Whatever shards hold is unknown, so it begins by asking every one.
// It gives way to whoever knows the later layout and comes after all, see shard.Layout.Outranks.
func (r *Register) recover(layout shard.Layout, heard int64) (shard.Layout, error) {
	now := r.now()
	if r.outdated == 0 {
		r.outdated = now
	}
	if time.Duration(now-r.outdated) < outdatedFor {
		if err := r.Limit.Adopt(layout); err != nil {
			return shard.Layout{}, err
		}
		return shard.Layout{}, errOvertaken
	}
	r.warn("the record of a limiter is older than what its shards obey, and nobody knows better; it goes on as " +
		"recorded")
	return layout.Merge(heard + epochLeap)
}

// noteAge learns since when the limit exists from the oldest record.
func (r *Register) noteAge(found []reading) {
	now := r.now()
	for _, f := range found {
		if f.err == nil && f.record.Exists {
			born := now - int64(f.record.Age) // below 0 if it is older than the client
			if known := r.bornAt.Load(); known == 0 || born < known {
				r.bornAt.Store(born)
			}
		}
	}
	r.bornAt.CompareAndSwap(0, now) // declared just now
}
