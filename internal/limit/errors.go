package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// The errors of package shardlimit, which says what they mean.
var (
	ErrInvalidConfig   = errors.New("shardlimit: invalid config")
	ErrInvalidName     = errors.New("shardlimit: invalid name")
	ErrInvalidLimit    = errors.New("shardlimit: invalid limit")
	ErrInvalidPermits  = errors.New("shardlimit: invalid number of permits")
	ErrExceedsLimit    = errors.New("shardlimit: more permits than the limit has")
	ErrUnavailable     = register.ErrUnavailable
	ErrOverloaded      = dispatch.ErrOverloaded
	ErrWaitTooLong     = errors.New("shardlimit: permits cannot come before the deadline")
	ErrTooFarAhead     = errors.New("shardlimit: permits are too far ahead")
	ErrLimitClosed     = errors.New("shardlimit: the limit is closed")
	ErrSettled         = errors.New("shardlimit: the decision was settled before")
	ErrInvalidDecision = errors.New("shardlimit: not the text of a decision")
	ErrNotFound        = register.ErrNotFound
	ErrClosed          = register.ErrClosed
	ErrSlotLost        = errors.New("shardlimit: the slot is held no more")
	ErrOtherLimiter    = errors.New("shardlimit: the decision is another limiter's")
	ErrFamilyLimit     = errors.New("shardlimit: the limit belongs to the whole family")
)

// TooFarAheadError tells when permits would come that cannot be reserved yet.
type TooFarAheadError struct {
	Delay time.Duration // until the permits would come, if nobody reserves or takes any before
}

// Error returns a text that tells the delay.
func (e *TooFarAheadError) Error() string {
	return fmt.Sprintf("%v: they can come in %s", ErrTooFarAhead, e.Delay)
}

// Unwrap returns ErrTooFarAhead.
func (e *TooFarAheadError) Unwrap() error { return ErrTooFarAhead }

// Title returns the name under which the limit was declared; of a key, its family: the key may be a
// secret.
func (of *Subject) Title() string {
	if of.Family != nil {
		return of.Family.Of.Name
	}
	return of.Name
}

// FailedAt returns the error of a call to a shard, or a place of the record, as callers see it.
// After Close it is ErrClosed.
func (of *Subject) FailedAt(at shard.Location, err error) error {
	if of.Process.Closed.Load() {
		return ErrClosed
	}
	return of.Process.errors.Failed(of.Title(), shard.Tag(at.Slot), at.Node, err)
}

// Failed returns the error of a call to a shard as callers see it.
func (of *Subject) Failed(sh *dispatch.Shard, err error) error {
	return of.FailedAt(sh.Site.Location, err)
}

// Absence returns why no shard was asked: the nodes are away or unknown here, or the key moves.
func (of *Subject) Absence(r *Routes) error {
	if r.closed != nil {
		return r.closed
	}
	if live := r.Layout.Live(); len(r.Shards) == 0 && len(live) > 0 {
		return of.FailedAt(live[0].Site().Location, node.ErrStranger)
	}
	for _, sh := range r.Shards {
		if !sh.Node.Ready(sh.Slot) {
			return of.Failed(sh, sh.Node.Away(sh.Slot))
		}
	}
	return nil
}
