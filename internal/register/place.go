package register

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// readPatience is how long one place of a record may take to answer, unless calls may take longer.
const readPatience = 250 * time.Millisecond

// places are where a record is kept. They read, write and remove it at one place, and know nothing
// of the others: every command for a record is sent from here.
type places struct {
	env     *Env
	id      string
	metrics *telemetry.Limiter
}

// read reads the record at a place. A node that is away is asked only if there is time for that,
// and it is time to look whether it is back.
func (p *places) read(ctx context.Context, at shard.Location,
	req script.ReadRecordRequest) (record script.Record, err error) {
	within, cancel := context.WithTimeout(ctx, max(p.env.Nodes.CallTimeout, readPatience))
	defer cancel()
	n, ref, err := p.find(at)
	if err != nil {
		return record, err
	}
	within, call, err := n.BeginUnlessAway(within, at.Slot, p.about(telemetry.ReadRecord, at), hasTime(ctx))
	if err != nil {
		return record, err
	}
	record, err = call.Scripts.ReadRecord(within, ref, req)
	if ctx.Err() != nil {
		call.Excuse()
	}
	call.Finish(within, err)
	if err == nil {
		n.ServerClock(at.Slot).Learn(p.env.Nodes.Clock.Elapsed(), record.Now)
	}
	return record, err
}

// write writes the record at a place, if the epoch there is the expected one. If it is not, record
// is what is there.
func (p *places) write(ctx context.Context, at shard.Location,
	req script.WriteRecordRequest) (record script.Record, written bool, err error) {
	err = p.run(ctx, telemetry.WriteRecord, at,
		func(ctx context.Context, e *script.Endpoint, ref script.RecordRef) (err error) {
			record, written, err = e.WriteRecord(ctx, ref, req)
			return err
		})
	return record, written, err
}

// drop removes the record at a place.
func (p *places) drop(ctx context.Context, at shard.Location) error {
	return p.run(ctx, telemetry.DropRecord, at,
		func(ctx context.Context, e *script.Endpoint, ref script.RecordRef) error {
			return e.DropRecord(ctx, ref)
		})
}

// run makes one call to a place.
func (p *places) run(ctx context.Context, op telemetry.Operation, at shard.Location,
	do func(context.Context, *script.Endpoint, script.RecordRef) error) error {
	n, ref, err := p.find(at)
	if err != nil {
		return err
	}
	ctx, call, err := n.Begin(ctx, at.Slot, p.about(op, at), readPatience, nil)
	if err != nil {
		return err
	}
	err = do(ctx, call.Scripts, ref)
	call.Finish(ctx, err)
	return err
}

// find returns the node and the keys of a place.
func (p *places) find(at shard.Location) (*node.Node, script.RecordRef, error) {
	ref := script.RecordKeys(p.env.Nodes.Prefix, shard.Tag(at.Slot), p.id)
	if n := p.env.Nodes.Node(at.Node); n != nil {
		return n, ref, nil
	}
	return nil, ref, node.ErrStranger
}

func (p *places) about(op telemetry.Operation, at shard.Location) telemetry.Call {
	return telemetry.Call{Operation: op, Limiter: p.metrics, Shard: shard.Tag(at.Slot)}
}

// hasTime reports whether there is time for a place that does not answer. A call for permits, which
// waits for a record only if a shard has no state, leaves it to others to find out whether a node
// is back.
func hasTime(ctx context.Context) bool {
	until, ok := ctx.Deadline()
	return !ok || time.Until(until) > readPatience
}
