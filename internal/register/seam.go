package register

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Limit is the limit that a record tells of, as its process uses it. A register calls it with an
// exchange or a step of a change, never with a call for permits.
type Limit interface {
	// Wanted is the limit as the code declares it, at the highest revision.
	Wanted() Wanted
	// Layout is the layout that the process works with, nil if it has none. It never changes.
	Layout() *shard.Layout
	// Adopt makes a layout the one that the process works with, unless it has a newer one. The
	// error is ErrUnreadable for a layout that no version could have declared, and ErrDeleted after
	// a deletion.
	Adopt(l shard.Layout) error
}

// Shards are those of a limit, or of a key, as they are told a layout.
type Shards interface {
	// Propose makes an offer to a shard, without asking for permits. The error tells of the shard.
	Propose(ctx context.Context, o *Offer) (script.TakeReply, error)
}

// Offer is a layout as one of its shards hears of it.
type Offer struct {
	Layout shard.Layout
	Shard  shard.Shard
	Floor  int64 // the share that the shard may put in force at once
	Forced bool  // it is sent also to a node that is believed to be away
}

// Subject says which limit a register is of.
type Subject struct {
	Limit   Limit
	Shards  Shards
	Name    string // as people know it
	ID      string // as it stands in Redis keys
	Family  bool   // the record of a family: settled at once, because its keys never move capacity
	Metrics *telemetry.Limiter
}

// Wanted is a limit as somebody wants it to be.
type Wanted struct {
	shard.Spec
	Shards int // over which it is split; 0: as many as suit it
}
