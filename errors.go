package shardlimit

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// Errors of this package. Test for them with errors.Is. A denial is never an
// error: it is a Decision with Allowed == false.
var (
	// ErrInvalidConfig: New was given a Config that cannot work. The text says what to change.
	ErrInvalidConfig = limit.ErrInvalidConfig
	// ErrInvalidName: the name of a limiter, or the key of a family, is empty or longer than
	// MaxName bytes.
	ErrInvalidName = limit.ErrInvalidName
	// ErrInvalidLimit: a Limit is outside its bounds.
	ErrInvalidLimit = limit.ErrInvalidLimit
	// ErrInvalidPermits: a call asked for less than one permit, or more than MaxPermits.
	ErrInvalidPermits = limit.ErrInvalidPermits
	// ErrExceedsLimit: a call asked for more permits than the whole limit has, so it can never be
	// granted.
	ErrExceedsLimit = limit.ErrExceedsLimit
	// ErrUnavailable: no shard answered within the call timeout, and the policy is FailClosed or
	// WaitOut.
	ErrUnavailable = limit.ErrUnavailable
	// ErrOverloaded: this process asks for more than can be answered within the call timeout, so
	// the call was sent too late, or not at all. Redis may be in good health. It comes after
	// Config.CallTimeout, and is an ErrUnavailable, too.
	ErrOverloaded = limit.ErrOverloaded
	// ErrWaitTooLong: the permits cannot come before the context's deadline, so waiting was given
	// up at once.
	ErrWaitTooLong = limit.ErrWaitTooLong
	// ErrTooFarAhead: the permits come later than in a window, so they cannot be reserved yet. The
	// error is a *TooFarAheadError.
	ErrTooFarAhead = limit.ErrTooFarAhead
	// ErrLimitClosed: the limit is Closed, so that nothing can be reserved. Wait waits until it is
	// opened.
	ErrLimitClosed = limit.ErrLimitClosed
	// ErrSettled: the decision was settled before, so nothing was changed.
	ErrSettled = limit.ErrSettled
	// ErrSlotLost: the slot is held no more. See Slot.Extend.
	ErrSlotLost = limit.ErrSlotLost
	// ErrInvalidDecision: the text is not that of a decision. See Decision.UnmarshalText.
	ErrInvalidDecision = limit.ErrInvalidDecision
	// ErrNotFound: Open found no limit of that name, or the limit was deleted by this process.
	ErrNotFound = limit.ErrNotFound
	// ErrClosed: the Client was closed.
	ErrClosed = limit.ErrClosed
	// ErrOtherLimiter: the decision is not one of this Limiter, so nothing was settled.
	ErrOtherLimiter = limit.ErrOtherLimiter
	// ErrFamilyLimit: one key of a Family cannot be changed, deleted or rebalanced by itself.
	ErrFamilyLimit = limit.ErrFamilyLimit
)

// TooFarAheadError tells when permits would come that cannot be reserved yet. It unwraps to
// ErrTooFarAhead.
type TooFarAheadError struct {
	Delay time.Duration // until the permits would come, if nobody reserves or takes any before
}

// Error returns a text that tells the delay.
func (e *TooFarAheadError) Error() string {
	return fmt.Sprintf("%v: they can come in %s", ErrTooFarAhead, e.Delay)
}

// Unwrap returns ErrTooFarAhead.
func (e *TooFarAheadError) Unwrap() error { return ErrTooFarAhead }

// ShardError says which shard failed and why. It unwraps to the cause.
type ShardError struct {
	Limiter string // name of the limiter
	Shard   string // hash tag of the shard's keys
	Node    string // name of the node that holds it
	Err     error
}

// Error names the limiter, the shard, the node and the cause.
func (e *ShardError) Error() string {
	return fmt.Sprintf("shardlimit: limiter %q, shard {%s} on node %s: %v", e.Limiter, e.Shard, e.Node, e.Err)
}

// Unwrap returns the cause.
func (e *ShardError) Unwrap() error { return e.Err }

// ConfigError tells of a node whose answer waiting does not change: a password, a certificate, a
// database, a missing right, a replica, one node of a cluster. Limiter, Family and calls for
// permits return it at once, whatever the outage policy, if nothing else keeps them from being
// served. Of several nodes the error has one each. It unwraps to the cause.
type ConfigError struct {
	Node   string // name of the node
	Err    error  // what the server said, or what failed
	Remedy string // what to do about it
}

// Error names the node, the cause and what to do.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("shardlimit: node %s: %v; %s", e.Node, e.Err, e.Remedy)
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }
