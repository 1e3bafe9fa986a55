package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file reads and writes the record at all its places; place.go does so at one.

// reading is what one place of the record held.
type reading struct {
	place  shard.Location
	record script.Record
	layout *shard.Layout // nil if there is none, or it is unreadable
	broken error         // why it is unreadable
	err    error
}

// everyPlace is where the record is to be by the nodes of this process, the home of a new one
// first; then where it may be left of nodes that drain, and where it was last known to be anchored.
func (r *Register) everyPlace() []shard.Location {
	nodes := r.env.Nodes.Roster()
	places := r.homes()
	more := shard.Anchors(r.ID, nodes.All())
	if t := r.Limit.Layout(); t != nil {
		more = append(more, t.Anchor)
	}
	for _, p := range more {
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places
}

// homes are the first of the places: where the record is kept.
func (r *Register) homes() []shard.Location {
	nodes := r.env.Nodes.Roster().Open()
	if f := r.fence(); f != nil {
		if in := slices.DeleteFunc(slices.Clone(nodes), func(n shard.Node) bool { return f.Out(n.Name) }); len(in) > 0 {
			nodes = in
		}
	}
	return shard.Anchors(r.ID, nodes)
}

// anchor is where the record is believed to be replaced.
func (r *Register) anchor() shard.Location {
	if t := r.Limit.Layout(); t != nil {
		return t.Anchor
	}
	return r.homes()[0]
}

// survey reads every place, and follows the record from there to its anchor, whose reading is
// found[at].
func (r *Register) survey(ctx context.Context) (found []reading, at int) {
	places, here := r.everyPlace(), r.anchor()
	if r.env.Nodes.Node(here.Node) == nil {
		here = places[0]
	}
	found = make([]reading, len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() { found[i] = r.read(ctx, p, p == here) })
	}
	wg.Wait()
	best, err := newest(found)
	if err == nil && best != nil {
		here = best.Anchor
	}
	for range anchorHops {
		at = slices.IndexFunc(found, func(f reading) bool { return f.place == here })
		if at < 0 {
			at = len(found)
			found = append(found, r.read(ctx, here, true))
		}
		next := found[at].layout
		if next == nil || best == nil || next.Epoch < best.Epoch || next.Anchor == here {
			break
		}
		best, here = next, next.Anchor
	}
	for _, f := range found { // whether a layout was moved elsewhere, its anchor knows
		if f.layout != nil && !slices.ContainsFunc(found, func(g reading) bool { return g.place == f.layout.Anchor }) {
			found = append(found, r.read(ctx, f.layout.Anchor, false))
		}
	}
	r.there = make(map[shard.Location]int64, len(found))
	for _, f := range found {
		r.there[f.place] = f.record.Epoch
	}
	return found, at
}

// anchorHops is how often a record is followed to where it was moved.
const anchorHops = 4

// read reads one place of the record; as a participant only the anchor.
func (r *Register) read(ctx context.Context, place shard.Location, participate bool) reading {
	got := reading{place: place}
	if f := r.fence(); f != nil && f.Fenced(place.Node) { // nobody relies on what it holds any more
		got.err = node.ErrStranger
		return got
	}
	req := script.ReadRecordRequest{}
	if participate {
		req.Participant = r.env.Process
		req.ParticipantTTL = participantTTL
		req.Keep = r.keep()
	}
	got.record, got.err = r.places.read(ctx, place, req)
	if got.err == nil && got.record.Exists {
		got.layout, got.broken = r.decode(got.record)
	}
	return got
}

func (r *Register) keep() time.Duration {
	keep := recordKeep + 2*r.Limit.Declared().Window
	if t := r.Limit.Layout(); t != nil {
		keep = max(keep, recordKeep+2*t.Window)
	}
	return keep
}

// newest is the layout with the highest epoch, nil if there is none.
func newest(found []reading) (*shard.Layout, error) {
	best := -1
	for i, f := range found {
		if f.err == nil && f.record.Exists && (best < 0 || newer(f.record, found[best].record)) {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	return found[best].layout, found[best].broken
}

// decode is the layout that a record holds, in the one form in which this version stores it.
func (r *Register) decode(record script.Record) (*shard.Layout, error) {
	if len(record.Blob) > script.MaxBlob {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrUnreadable, len(record.Blob))
	}
	var layout shard.Layout
	if err := json.Unmarshal(record.Blob, &layout); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch {
	case layout.Anchor.Node == "":
		return nil, fmt.Errorf("%w: it has no anchor", ErrUnreadable)
	case r.Family && layout.Keys == nil:
		return nil, fmt.Errorf("%w: it does not say where the keys of the family are", ErrUnreadable)
	case !r.Family && layout.Keys != nil:
		return nil, fmt.Errorf("%w: it is that of a family", ErrUnreadable)
	}
	return &layout, nil
}

func newer(a, b script.Record) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Settled && !b.Settled
}

// write stores the layout at a place, its anchor or the one before it, if the epoch there is still
// the expected one (0: nothing), and then at the others. written tells whether it is stored there
// now by this call. agreed is false if another layout was found at any of them, whose order with
// this one is not known or that is newer: then the layout is not to be used before the record was
// read again.
func (r *Register) write(ctx context.Context, at shard.Location, expect int64,
	layout shard.Layout) (written, agreed bool, err error) {
	layout = r.asStored(layout)
	req, err := r.request(layout)
	if err != nil {
		return false, false, err
	}
	req.Expect = expect
	_, written, err = r.places.write(ctx, at, req)
	if err != nil || !written {
		return false, false, err
	}
	return true, r.writeCopies(ctx, layout, at), nil
}

// asStored is the form in which a layout is stored: that of a family is settled
// at once, because its keys begin with whatever share it says.
func (r *Register) asStored(layout shard.Layout) shard.Layout {
	if r.Family {
		return layout.Settle()
	}
	return layout
}

func (r *Register) request(layout shard.Layout) (script.WriteRecordRequest, error) {
	blob, err := json.Marshal(layout)
	return script.WriteRecordRequest{
		Epoch:   layout.Epoch,
		Settled: layout.Settled,
		Blob:    blob,
		Keep:    recordKeep + 2*layout.Window,
		BornAge: r.Age(),
	}, err
}

// writeCopies brings the anchor and the copies up to date, also those that were left on nodes that
// drain, but not where done. One that cannot be reached stays behind; whoever reads it later mends
// it. It reports whether all that could be reached lead to the layout's anchor now.
func (r *Register) writeCopies(ctx context.Context, layout shard.Layout, done ...shard.Location) bool {
	req, err := r.request(layout)
	if err != nil {
		return false
	}
	places := append(r.homes(), layout.Anchor)
	for _, p := range r.everyPlace() {
		if r.there[p] > 0 {
			places = append(places, p)
		}
	}
	var disputed atomic.Bool
	var wg sync.WaitGroup
	for i, p := range places {
		if slices.Contains(places[:i], p) || slices.Contains(done, p) {
			continue
		}
		wg.Go(func() {
			req := req
			req.Expect = script.ExpectOlder
			if epoch, read := r.there[p]; read {
				req.Expect = epoch // somebody may have begun there meanwhile: that must not be covered up
			}
			record, written, err := r.places.write(ctx, p, req)
			if err != nil && r.strict && !errors.Is(err, node.ErrStranger) {
				disputed.Store(true)
			}
			if err != nil || written {
				return
			}
			if there, err := r.decode(record); err != nil || there.Anchor != layout.Anchor {
				disputed.Store(true)
			}
		})
	}
	wg.Wait()
	return !disputed.Load()
}
