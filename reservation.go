package shardlimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// Reservation is permits that may be used from a known instant on. They are
// counted in every window that holds that instant, so use them when it comes:
// who waits longer uses them beside permits that have become free meanwhile.
// A Reservation is safe for concurrent use.
type Reservation struct {
	in call.Reservation
}

// Reserve gets n permits, all of them, now or at the earliest instant at which there is room for
// them, at most one window ahead. Delay tells how long to wait before using them, and Cancel gives
// them back.
//
// A shard keeps its reservations in the order of their dates. So later ones, by any process, come
// behind this one, and calls for permits at once do not move it: they get what stays free beside
// all that is reserved. So callers that want less do not starve a large reservation.
//
// The error is a *TooFarAheadError, which is an ErrTooFarAhead, if the permits come later than in a
// window, or are more than the shards that answer have while others are away. It is ErrWaitTooLong
// if that is after the deadline of ctx. Other errors are those of AllowN. While no shard answers,
// OnOutage decides: FailLocal gives what is free of this process' part, FailOpen all. What a
// process decides by itself, also under PerParticipant, is not reserved before it is free: the
// error is an ErrTooFarAhead then.
//
// Every algorithm can reserve, and its bound holds for permits that are used when they are due. A
// FixedWindow has room in the next window. Under LeakyBucket every grant is a turn in a queue, so
// Reserve gets the turn that AllowN would get with its Delay; Cancel works only for the newest
// turns, because others would leave holes. While participants contend, one that has had its part
// cannot reserve before its credit has paid for that: the error is an ErrTooFarAhead.
//
// Reset forgets what was reserved, though its holder may rely on it. After SetLimit has lowered
// the limit, earlier reservations are still admitted, and a bucket grants nothing else until they
// were. A node that loses its memory forgets what was reserved there.
func (l *Limiter) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	var d call.Decision
	in, err := l.in.Reserve(ctx, n, &d)
	if call.IsRefusal(err) {
		said := decisionOf(&d)
		l.tell(ctx, n, &said)
	}
	if far := (*limit.TooFarAheadError)(nil); errors.As(err, &far) {
		return nil, &TooFarAheadError{far.Delay}
	}
	if err != nil {
		return nil, err
	}
	return &Reservation{*in}, nil
}

// Delay returns how long to wait from now on before the permits may be used; 0 if they may be used
// already.
func (r *Reservation) Delay() time.Duration { return r.in.Wait() }

// At returns when the permits may be used, on this process' clock.
func (r *Reservation) At() time.Time { return r.in.At() }

// Permits returns how many permits were reserved.
func (r *Reservation) Permits() int64 { return r.in.Granted }

// Degraded reports whether the outage policy answered, not Redis.
func (r *Reservation) Degraded() bool { return r.in.Degraded }

// Shadowed reports whether the limit is in Shadow mode, and Enforced would have had the permits
// later or not at all.
func (r *Reservation) Shadowed() bool { return r.in.Shadowed }

// Cancel gives the permits back, so that others can have them; what others have
// reserved does not move. It works once, and until the permits are due: later they
// count as used, and nothing happens. While participants contend, it has cost its credit all the
// same. The error is a *ShardError for each shard that could not be reached;
// Cancel may then be called again.
func (r *Reservation) Cancel(ctx context.Context) error { return r.in.Cancel(ctx) }
