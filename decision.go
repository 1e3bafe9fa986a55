package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
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
	// Reason is why the call was denied; 0 if it was not. With several shards it may hold for some
	// of them only.
	Reason Reason
	// ResetAfter is the time until the whole limit is free again if nothing
	// more is used.
	ResetAfter time.Duration
	// Degraded means that the outage policy answered, not Redis.
	Degraded bool
	// Shadowed means that the limit is in Shadow mode, and that Enforced would have denied or
	// delayed the call. What it was granted beyond what there was is not counted.
	Shadowed bool

	origin call.Origin // what Settle needs
}

// is makes a zero Decision one of the engine. It is large, so it is filled in place.
func (d *Decision) is(in *call.Decision) {
	d.Allowed, d.Degraded, d.Shadowed, d.Reason = in.Allowed, in.Degraded, in.Shadowed, Reason(in.Reason)
	d.Granted, d.Limit, d.Remaining = in.Granted, in.Limit, in.Remaining
	d.Delay, d.RetryAfter, d.NextAfter, d.ResetAfter = in.Delay, in.RetryAfter, in.NextAfter, in.ResetAfter
	d.origin = in.Origin
}

// decisionOf returns a Decision of the engine for users.
func decisionOf(in *call.Decision) (d Decision) {
	d.is(in)
	return d
}

// in returns the Decision as the engine has it.
func (d *Decision) in() (in call.Decision) {
	in.Allowed, in.Degraded, in.Shadowed, in.Reason = d.Allowed, d.Degraded, d.Shadowed, telemetry.Reason(d.Reason)
	in.Granted, in.Limit, in.Remaining = d.Granted, d.Limit, d.Remaining
	in.Delay, in.RetryAfter, in.NextAfter, in.ResetAfter = d.Delay, d.RetryAfter, d.NextAfter, d.ResetAfter
	in.Origin = d.origin
	return in
}

// Mode returns the mode of the limit that decided. That of a Set is Closed if one of its limits is
// closed, Shadow if none of them refuses anybody and one at least is in Shadow, Off if all are off
// or there is none, and else Enforced. Reservations do not tell it.
func (d Decision) Mode() Mode { return Mode(d.origin.Mode) }

// Limiter returns the name of the limit that decided; of a key, that of its family. Of a Set's
// denial it is the limit that refuses for longest, and "" if the Set allowed the call.
func (d Decision) Limiter() string {
	if d.origin.Target == nil {
		return ""
	}
	return d.origin.Target.Title()
}

// MarshalText returns what Settle needs of the decision, in letters that a URL and a header may
// have, so that another process can settle it: a worker what a gateway took. It is some 110 bytes
// long, and 30 more for each further shard. It is no proof of anything: who can make up such a text
// can give back what others were granted, so take it only from programs that you trust. What the
// outage policy granted, or a limit with the Scope PerParticipant, is settled only in the process
// that granted it; handed over, Settle does nothing with it.
func (d Decision) MarshalText() ([]byte, error) {
	in := d.in()
	return in.MarshalText()
}

// UnmarshalText makes d the decision that MarshalText was given, as far as Settle needs it: of its
// other fields only Granted and Allowed are set. Any other text is ErrInvalidDecision, and leaves d
// as it is.
func (d *Decision) UnmarshalText(text []byte) error {
	var in call.Decision
	if err := in.UnmarshalText(text); err != nil {
		return err
	}
	*d = decisionOf(&in)
	return nil
}

// Reason is why a call was denied. Where several hold, the last one of this list is told.
type Reason uint8

// The reasons.
const (
	// ReasonFull is that fewer permits are free than were asked for.
	ReasonFull Reason = Reason(telemetry.Full)
	// ReasonOwes is that what will be free is spoken for: permits were reserved ahead, or Settle
	// charged more than was free.
	ReasonOwes Reason = Reason(telemetry.Owes)
	// ReasonOutage is that the outage policy decided, or that nothing is free while a node with a
	// part of the limit does not answer.
	ReasonOutage Reason = Reason(telemetry.Outage)
	// ReasonLostMemory is that a shard grants nothing yet, because its node lost its memory: see
	// Quarantine.
	ReasonLostMemory Reason = Reason(telemetry.LostMemory)
	// ReasonHeldForOthers is that this participant has had its part. Permits may be free, and are
	// kept for the others.
	ReasonHeldForOthers Reason = Reason(telemetry.HeldForOthers)
	// ReasonLate is that this process could not ask in time, because it had too many other calls.
	ReasonLate Reason = Reason(telemetry.Late)
	// ReasonClosed is that the limit is in the mode Closed.
	ReasonClosed Reason = Reason(telemetry.Closed)
)

// String returns the name under which the reason is reported: "full", "owes", "outage",
// "lost_memory", "held_for_others", "late" or "closed"; "" of 0.
func (r Reason) String() string { return telemetry.Reason(r).String() }
