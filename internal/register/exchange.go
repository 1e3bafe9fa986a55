package register

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// This file is one exchange with the places of the record: what a majority of them has is
// learned, and declared or completed if need be.

// begins is called before an exchange.
func (r *Reader) begins() error {
	if r.Deleted() {
		return ErrDeleted
	}
	r.shown = r.Highest.Load()
	return nil
}

// heard takes in the layout that a majority has, by a read or change that began then.
func (r *Reader) heard(ctx context.Context, got record.Reading, began clock.Elapsed) error {
	if !got.Exists {
		return record.ErrUnsettled
	}
	layout, err := r.decode(got.Value)
	if err != nil {
		return err
	}
	if r.knowsLater(layout) {
		return record.ErrUnsettled // the places forgot it
	}
	if r.shown <= layout.Epoch {
		r.outdated = 0
	} else if r.outdated == 0 {
		r.outdated = r.now()
	}
	switch {
	case r.shown > layout.Epoch && !r.waited():
		if err := r.Limit.Adopt(*layout); err != nil {
			return err
		}
		return errOvertaken
	case r.shown > layout.Epoch, got.Held > 0 && layout.Forgettable(got.Held, leftAfter(layout)):
		return record.ErrUnsettled
	}
	born := r.now() - int64(got.Known) // below 0 if it is older than the client
	if old := r.bornAt.Load(); old == 0 || born < old {
		r.bornAt.Store(born)
	}
	if layout.Fence != nil {
		_ = r.env.Fence.Follow(ctx, hosts(*layout)) // else nobody here would ask a node that is new, or back
	}
	if err := r.Limit.Adopt(*layout); err != nil {
		return err
	}
	r.Learn(layout.Epoch, began)
	read := got.Participants > 0 // else it was a change
	if read {
		r.Participants.Store(got.Participants)
	}
	if !layout.Settled && (read || r.leads.Load() != layout.Epoch) { // else see putInForce
		r.drive(layout.Epoch)
	}
	return nil
}

// mostBytes is how long the record of a limit may be.
const mostBytes = 1 << 20

// decode is the layout that a record holds, in the one form in which this version stores it.
func (r *Reader) decode(text string) (*shard.Layout, error) {
	if len(text) > mostBytes {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrUnreadable, len(text))
	}
	var layout shard.Layout
	if err := json.Unmarshal([]byte(text), &layout); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch {
	case r.Family && layout.Keys == nil:
		return nil, fmt.Errorf("%w: it does not say where the keys of the family are", ErrUnreadable)
	case !r.Family && layout.Keys != nil:
		return nil, fmt.Errorf("%w: it is that of a family", ErrUnreadable)
	}
	return &layout, nil
}

// encode is the form in which a layout is stored: that of a family is settled at once, because its
// keys begin with whatever share it says.
func (r *Reader) encode(layout *shard.Layout) (string, error) {
	if r.Family {
		*layout = layout.Settle(0)
	}
	text, err := json.Marshal(layout)
	if err == nil && len(text) > mostBytes {
		err = fmt.Errorf("the record of the limit would have %d bytes, at most %d are stored", len(text), mostBytes)
	}
	return string(text), err
}

// next returns what makes the layout with which the record goes on: what it has, or what this
// process knows if that is later or the record was lost, else what the code declares.
func (r *Reader) next(ctx context.Context) (func(record.Reading) (string, error), error) {
	var first func(epoch int64) (shard.Layout, error)
	if r.Limit.Layout() == nil {
		var err error
		if first, err = r.first(ctx); err != nil {
			return nil, err
		}
	}
	return func(found record.Reading) (text string, err error) {
		t := r.Limit.Layout()
		layout := &shard.Layout{}
		if found.Exists {
			if layout, err = r.decode(found.Value); err != nil {
				return "", err
			}
		}
		switch {
		case found.Exists && !r.knowsLater(layout):
			return r.onward(found, layout)
		case found.Exists:
			r.warn("the record of a limiter was lost or is older than what was in force; it is replaced")
			*layout, err = t.Outlast(max(t.Epoch, r.Highest.Load())+epochLeap, *layout)
		case t != nil && t.Fence != nil:
			// A later one may have been lost. Shards that obey it have to show: so this one is the
			// next, and not the latest.
			*layout, err = t.Change(t.Epoch+1, t.Spec, t.Live(), 0)
		case t != nil:
			*layout = *t
		default:
			*layout, err = first(max(found.Now, r.Highest.Load()+1))
		}
		if err != nil {
			return "", err
		}
		return r.encode(layout)
	}, nil
}

// knowsLater reports whether this process works with a layout that the record has forgotten.
func (r *Reader) knowsLater(than *shard.Layout) bool {
	t := r.Limit.Layout()
	return t != nil && t.Epoch > than.Epoch
}

// onward is the layout that follows one of which this process knows none that is later, or that
// itself. Where shards have overtaken it, whatever they hold is unknown, so its successor begins by
// asking every one. Of a family it is forgotten where keys were so long ago that nothing can be
// held there any more.
func (r *Reader) onward(found record.Reading, layout *shard.Layout) (string, error) {
	var next shard.Layout
	var err error
	switch {
	case r.shown > layout.Epoch && r.waited():
		r.warn("the record of a limiter is older than what its shards obey, and nobody knows better; it goes on as " +
			"recorded")
		next, err = layout.Outlast(r.shown+epochLeap, *layout)
	case layout.Forgettable(found.Held, leftAfter(layout)):
		next, err = layout.Forget(r.nextEpoch(*layout, found), found.Held, leftAfter(layout))
	default:
		return found.Value, nil
	}
	if err != nil {
		return "", err
	}
	return r.encode(&next)
}

// waited reports whether those who may know a later layout than the record have had their time.
func (r *Reader) waited() bool {
	return r.outdated != 0 && time.Duration(r.now()-r.outdated) >= outdatedFor
}

// leftAfter is how long after a change of a family nothing can be held any more where its keys
// were before. By then no process believes in the layout before, and what it granted last, or ahead
// of time, has left the window. The states of shards are gone, too: one that was never told of a
// later layout would have its share if the key came back to it.
func leftAfter(layout *shard.Layout) time.Duration {
	if layout.Keys == nil {
		return 0
	}
	return confirmFor + 2*layout.Keys.Longest + KeyKeep + time.Second
}

// KeyKeep is how much longer than two windows a key's state lives after its last use, or after what
// was used last has left the window.
const KeyKeep = time.Second
