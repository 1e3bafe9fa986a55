package call

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Decision is the answer to one call. It is large, so the way of a call fills it in place.
type Decision struct {
	Answer
	Origin
}

// Answer is what a Decision tells, see shardlimit.Decision.
type Answer struct {
	Allowed, Degraded, Shadowed bool
	Reason                      telemetry.Reason

	Granted, Limit, Remaining                int64
	Delay, RetryAfter, NextAfter, ResetAfter time.Duration
}

// Origin is what Settle must know of a decision.
type Origin struct {
	Mode    limit.Mode // by which it was decided
	Source  telemetry.Source
	Target  *Target
	ticket  uint64        // of the first part; see origin
	first   dispatch.Part // that a shard granted
	asked   clock.Elapsed // who waited was not granted it before
	Joint   *[]Decision   // what the limits of a Set said
	special *special      // nil for most; see rarely
}

// special is what few decisions have. Copies of a decision share it, so only settled changes.
type special struct {
	more    []dispatch.Part // when permits were collected from several shards
	engine  *local.Engine   // when this process decided by itself
	settled atomic.Bool     // with an engine
	handed  *Handed         // when another process made it
	lease   *lease          // when the permits were held in advance; ticket is then their place in it
}

var ordinary special

// rarely returns what few decisions have, which is only to be read.
func (o *Origin) rarely() *special {
	if o.special == nil {
		return &ordinary
	}
	return o.special
}
