package shardlimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file reads and writes the three places of a register's record.

// reading is what one place of the record held.
type reading struct {
	record script.Record
	err    error
}

func (r *register) readAll(ctx context.Context) []reading {
	found := make([]reading, len(r.places))
	var wg sync.WaitGroup
	for i := range r.places {
		req := script.ReadRecordRequest{}
		if i == 0 {
			req.Participant = r.core.client.cfg.Participant
			req.ParticipantTTL = participantTTL
			req.Keep = r.keep()
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, max(r.core.client.cfg.CallTimeout, 250*time.Millisecond))
			defer cancel()
			e, ref, err := r.at(ctx, i)
			if err == nil {
				found[i].record, err = e.scripts.ReadRecord(ctx, ref, req)
			}
			found[i].err = err
		})
	}
	wg.Wait()
	return found
}

// at is the endpoint and the keys of one place of the record.
func (r *register) at(ctx context.Context, i int) (*endpoint, script.RecordRef, error) {
	p := r.places[i]
	ref := script.RecordKeys(r.core.client.cfg.KeyPrefix, shard.Tag(p.Slot), r.core.id)
	n := r.core.client.nodes[p.Node]
	e, err := n.endpoint(ctx, p.Slot)
	return e, ref, err
}

func (r *register) keep() time.Duration {
	keep := recordKeep + 2*r.core.declaration().Per
	if t := r.core.table.Load(); t != nil {
		keep = max(keep, recordKeep+2*t.limit.Per)
	}
	return keep
}

// newest decodes the record with the highest epoch, nil if there is none.
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
	return decodeLayout(found[best].record)
}

func decodeLayout(record script.Record) (*shard.Layout, error) {
	var layout shard.Layout
	if err := json.Unmarshal(record.Blob, &layout); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return &layout, nil
}

func newer(a, b script.Record) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Settled && !b.Settled
}

// write stores the layout at the anchor if the epoch there is still the
// expected one (0: nothing), and returns what is stored afterwards.
func (r *register) write(ctx context.Context, expect int64, layout shard.Layout) (*shard.Layout, error) {
	layout = r.asStored(layout)
	e, ref, err := r.at(ctx, 0)
	if err != nil {
		return nil, err
	}
	req, err := r.request(layout)
	if err != nil {
		return nil, err
	}
	req.Expect = expect
	record, written, err := e.scripts.WriteRecord(ctx, ref, req)
	if err != nil {
		return nil, err
	}
	if written {
		r.writeCopies(ctx, layout)
		return &layout, nil
	}
	return decodeLayout(record)
}

// asStored is the form in which a layout is stored: that of a family is settled
// at once, because its keys begin with whatever share it says.
func (r *register) asStored(layout shard.Layout) shard.Layout {
	if r.family {
		return layout.Settle()
	}
	return layout
}

func (r *register) request(layout shard.Layout) (script.WriteRecordRequest, error) {
	blob, err := json.Marshal(layout)
	return script.WriteRecordRequest{
		Epoch:   layout.Epoch,
		Settled: layout.Settled,
		Blob:    blob,
		Keep:    recordKeep + 2*layout.Window,
		BornAge: r.age(),
	}, err
}

// writeCopies brings the copies up to date. One that cannot be reached stays
// behind; whoever reads it later mends it.
func (r *register) writeCopies(ctx context.Context, layout shard.Layout) {
	req, err := r.request(layout)
	if err != nil {
		return
	}
	req.Expect = script.ExpectOlder
	var wg sync.WaitGroup
	for i := 1; i < len(r.places); i++ {
		wg.Go(func() {
			if e, ref, err := r.at(ctx, i); err == nil {
				_, _, _ = e.scripts.WriteRecord(ctx, ref, req)
			}
		})
	}
	wg.Wait()
}

func specOf(l Limit) shard.Spec {
	return shard.Spec{Permits: l.Permits, Window: l.Per, Algorithm: l.Algorithm.String(), Revision: l.Revision, Lease: l.Lease, Scope: l.Scope.stored()}
}

func limitOf(l shard.Layout) (Limit, error) {
	algorithm, err := algorithmNamed(l.Algorithm)
	scope, unknown := scopeNamed(l.Scope)
	return Limit{
		Scope:     scope,
		Permits:   l.Permits,
		Per:       l.Window,
		Algorithm: algorithm,
		Shards:    len(l.Live()),
		Lease:     l.Lease,
		Revision:  l.Revision,
	}, errors.Join(err, unknown)
}
