package shardlimit

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Decision is the answer to one call, worked out from the replies that decided it. A denial from
// memory counts on from the reply that is remembered. A Decision is a plain value; copies are
// equal, and only one of them can be settled.
type Decision struct {
	// Allowed is the verdict. For AllowUpTo it is Granted > 0.
	Allowed bool
	// Granted is the number of permits that this call got.
	Granted int64
	// Limit is the limit in force, in permits per window, as far as this limiter has heard.
	Limit int64
	// Remaining is what is free after this call. With one shard it is the exact remainder of the
	// limit: of calls that are granted together each tells what is left after it. With several it
	// is what this process last heard of each, and the whole share of one that it has not heard
	// from; shards of nodes that are away do not count. Denials and permits of a Lease count only
	// what was heard.
	Remaining int64
	// Delay is, under LeakyBucket, how long to wait before acting, counted from when the call
	// returned: until the turn of the last permit. It is 0 under other algorithms.
	Delay time.Duration
	// RetryAfter is 0 if allowed, else the earliest time after which another
	// try can succeed if nobody else takes the permits first.
	RetryAfter time.Duration
	// NextAfter is the time until a permit is free again, if this call was granted the last that
	// this process knew of; else 0. It is 0 too where that is not known: of a Lease, and under
	// PerParticipant.
	NextAfter time.Duration
	// ResetAfter is the time until the whole limit is free again if nothing
	// more is used.
	ResetAfter time.Duration
	// Degraded means that the outage policy answered, not Redis.
	Degraded bool
	// Shadowed means that the limit is in Shadow mode, and that Enforced would have denied or
	// delayed the call. What it was granted beyond what there was is not counted.
	Shadowed bool

	mode    Mode // by which it was decided
	source  telemetry.Source
	core    *core
	ticket  uint64 // of the first part; see origin
	first   lane.Part
	more    []lane.Part   // when permits were collected from several shards
	until   int64         // on the client's clock: what was granted has left the window
	engine  *local.Engine // when this process decided by itself
	settled *atomic.Bool  // with an engine: whether it was settled
	handed  []handed      // when another process made it: what it tells of each limit
	joint   *[]Decision   // what the limits of a Set said
	lease   *lease        // when the permits were held in advance; ticket is then their place in it
}

// Mode is the mode of the limit that decided. That of a Set is Closed if one of its limits is
// closed, Shadow if none of them refuses anybody and one at least is in Shadow, Off if all are off
// or there is none, and else Enforced. Reservations do not tell it.
func (d Decision) Mode() Mode { return d.mode }

// State is what Peek found: the limit, its layout and what is in use.
type State struct {
	Limit   Limit // for a key of a Family the one that its Limiter brings
	Epoch   int64 // number of the layout
	Settled bool  // false while capacity still moves between shards after SetLimit
	// Used counts permits in the current window, and under every algorithm but FixedWindow those
	// that are reserved for later, over all shards that answered.
	Used int64
	// Remaining is what a call would be granted now if nobody contends, over all shards that
	// answered: exact when they all did. Under SlidingLog and FixedWindow permits can be free
	// beside those that are reserved for later, so with Used it can be more than the limit.
	Remaining int64
	// RetryAfter is 0 if a permit is free, else the time until the first one is. It is never early.
	// With more than about 30 grants in a shard's window it may be late by a thirtieth of the
	// window, and by more behind a reservation.
	RetryAfter time.Duration
	// ResetAfter is the time until the whole limit is free and stays so, if nothing is used but
	// what is reserved.
	ResetAfter time.Duration
	// Participants is the number of processes that used the limit lately, as last heard.
	Participants int64
	Shards       []ShardState
	// Records are the nodes that keep the records of the key prefix, as last heard.
	Records []string
	// Takeover tells that the others take over what a lost node has of the limit: it was declared
	// with Config.NodeTimeout.
	Takeover bool
	// Lost are the nodes that are lost: what they have is being taken over, or was if Settled.
	Lost []string
}

// ShardState is one shard of a State. After SetLimit has changed the algorithm, a
// place can hold two of them until the old one is empty.
type ShardState struct {
	Tag       string    // hash tag of its keys
	Slot      int       // Redis Cluster slot of the tag
	Node      string    // name of the node
	Algorithm Algorithm // by which it counts
	Target    int64     // share of the limit it is meant to have
	Share     int64     // share it has now
	Used      int64     // permits in its window, and reserved for later, as in State
	Free      int64     // permits it would grant now
	// Quarantine is how long the shard stays shut because its node lost its memory.
	Quarantine time.Duration
	// Err is set if the shard did not answer; the numbers are then zero.
	Err error
}
