package shardlimit

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// Limiter is a handle on one named limit. It is safe for concurrent use, and
// cheap: handles of one name share all state.
//
// Most callers want Allow (answer now) or Wait (block until it is their turn).
type Limiter struct {
	in     call.Limiter
	client *Client
}

// tell tells who hears of refusals of a call for n permits.
func (l *Limiter) tell(ctx context.Context, n int64, d *Decision) {
	if f := l.client.refused.Load(); f != nil {
		key, participant := l.in.Caller()
		(*f)(ctx, Refusal{l.in.Target.Name, key, participant, n, *d})
	}
}

// As returns the same limiter, seen by another participant: the permits it grants are charged to
// that participant's part of the limit. A gateway that calls for many tenants uses one for each,
// and none of them takes the part of the others. weight is relative to the other participants,
// MinWeight to MaxWeight; a participant should have the same wherever it calls from.
//
// As does no I/O and is cheap. Of a limit a Client remembers 16,384 participants. Calls for a
// participant with an impossible name (1 to MaxName bytes) or weight return ErrInvalidName or
// ErrInvalidConfig. Take names from what you have authenticated: the part of somebody who invents
// names is that of all his names together. Keys of a Family know no participants: As is the same
// limiter.
func (l *Limiter) As(participant string, weight float64) *Limiter {
	if in := l.in.As(participant, weight); in != l.in {
		return &Limiter{in, l.client}
	}
	return l
}

// Name returns the name the limiter was opened under; for a key of a family, "family/key".
func (l *Limiter) Name() string { return l.in.Name() }

// Allow asks for one permit. See AllowN.
func (l *Limiter) Allow(ctx context.Context) (Decision, error) { return l.AllowN(ctx, 1) }

// AllowN asks for n permits, all or nothing, and answers at once.
//
// Errors: ErrInvalidPermits for n < 1 or n > MaxPermits, ErrExceedsLimit if the whole limit is
// less than n, ErrUnavailable if no shard answered and the policy is FailClosed,
// ErrClosed, or the cause of the end of ctx. What a call is granted after its context has ended is
// given back when the reply comes; if none comes, it stays used for a window.
func (l *Limiter) AllowN(ctx context.Context, n int64) (d Decision, err error) {
	var in call.Decision
	err = l.in.Allow(ctx, n, false, &in)
	if d.is(&in); err == nil && !d.Allowed {
		l.tell(ctx, n, &d)
	}
	return d, err
}

// AllowUpTo asks for as many permits as there are, at most n. Granted tells
// how many those were; with none the call is denied. Errors are those of
// AllowN, except that n may be more than the limit.
func (l *Limiter) AllowUpTo(ctx context.Context, n int64) (d Decision, err error) {
	var in call.Decision
	err = l.in.Allow(ctx, n, true, &in)
	if d.is(&in); err == nil && !d.Allowed {
		l.tell(ctx, n, &d)
	}
	return d, err
}

// Wait blocks until one permit was granted. See WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until n permits were granted together. Calls of one process are served first come,
// first served. One that wants more than one permit and is denied reserves them, as Reserve does,
// so callers elsewhere that want less do not starve it. If it is certain that the permits cannot
// come before the deadline of ctx, it returns ErrWaitTooLong at once; while a node of the limit is
// away that is not certain. Other errors are those of AllowN; under WaitOut it waits on instead of
// returning ErrUnavailable.
// Acquire is the same, and returns the Decision.
func (l *Limiter) WaitN(ctx context.Context, n int64) error {
	_, err := l.Acquire(ctx, n)
	return err
}

// Acquire waits as WaitN does and returns its Decision, so that Settle can give back what was not
// used. It blocks until n permits were granted together, and until their turn under LeakyBucket, so
// Delay is 0. Errors are those of WaitN. With ErrWaitTooLong RetryAfter tells how long it takes
// until another try can succeed, and is 0 if this process does not know.
//
// Settle gives back nothing of a turn that has come. Of permits of a TokenBucket that were reserved
// first, as WaitN says, it may give back less: they count as used once they are due.
func (l *Limiter) Acquire(ctx context.Context, n int64) (Decision, error) {
	in, err := wait.Acquire(ctx, &l.in, n, false)
	d := decisionOf(&in)
	if errors.Is(err, ErrWaitTooLong) {
		l.tell(ctx, n, &d)
	}
	return d, err
}

// Settle makes what a decision of this limiter was granted what was used, 0 to MaxPermits:
// estimate, work, settle. What was not used comes back, so 0 is a refund. What was used beyond it
// is charged, though nothing may be free: calls are denied until it is paid.
//
// A decision is settled once. Whoever settles it again, in any process, gets ErrSettled and changes
// nothing; callers may ignore that. If a reply is lost, the same call may be made again. A Settle
// of just what was granted, of a denial, or of what the outage policy let pass does nothing. It
// goes on though ctx has ended, for at most Config.CallTimeout.
//
// What comes back, and what is charged:
//
//   - Permits that have left the window are back already. What is charged then is charged all the
//     same.
//   - Under SlidingLog, SlidingCounter and FixedWindow what is charged counts until a window is
//     over. More than the limit makes no difference there, so no more is counted.
//   - A TokenBucket takes back what it would have had without the grant, as far as it knows that,
//     and within the time that it takes to fill. It pays what it is charged at its rate.
//   - A LeakyBucket takes back only the last turns that it gave; what is charged has later turns
//     come later.
//   - A bucket is charged no more than it gains in an hour, or in twice the time that it takes to
//     fill, if that is longer.
//
// What is charged is divided over the shards, beside the bound of the limit, as it was used
// already. A shard that lost its memory gives nothing back and forgets what it was charged; one in
// quarantine is charged nothing.
//
// The error is ErrOtherLimiter if the decision is not one of this limiter, and joins a *ShardError
// for each shard that did not answer. Calling it again has these settled.
func (l *Limiter) Settle(ctx context.Context, d Decision, used int64) error {
	in := d.in()
	return l.in.Settle(ctx, &in, used)
}

// Limit returns the limit in force, as far as this process has heard; for a key of a Family the one
// that this Limiter brings. Before the limiter could be declared it is the limit that the code
// declares. Shards is how many there are, whoever chose that. SetLimit with the number that was
// chosen keeps it, and Rebalance may choose anew.
func (l *Limiter) Limit() Limit { return limitOf(l.in.Limit()) }

// Peek reads the state of every shard. It consumes nothing and writes nothing. What it calls free
// is what AllowN would be granted at that instant beside all that is reserved, as long as no
// participants contend. Shards that do not answer within Config.CallTimeout carry an Err;
// ErrUnavailable means that none did.
func (l *Limiter) Peek(ctx context.Context) (State, error) {
	st, err := l.in.Peek(ctx)
	return stateOf(&st), err
}

// Participants returns how those who contend for the limit stand, the greatest use first. It reads
// the accounts that shards keep from the first refusal until two windows after the last: at other
// times nobody contends, and the list is empty. So it always is for a limit of Scope
// PerParticipant. What was used before the first refusal is in no account. A shard has accounts for
// at most 1,024 participants, which is up to 83 KB to read; nothing is written or consumed.
//
// The error is a *ShardError for each shard that did not answer, and what the
// others said is returned with it. ErrUnavailable and ErrClosed are as for Peek.
func (l *Limiter) Participants(ctx context.Context) ([]ParticipantState, error) {
	in, err := l.in.Participants(ctx)
	var all []ParticipantState
	for _, p := range in {
		all = append(all, ParticipantState{ID: p.ID, Weight: float64(p.Weight) / 1000, Used: p.Used,
			Demand: float64(p.Demand) / 1000, Entitlement: p.Entitlement})
	}
	return all, err
}

// SetLimit changes the limit for every process, while it is in use: permits,
// window, burst, algorithm and number of shards. Usage stays in the log, so the change
// neither lets a burst through nor forgets one. Shards 0 chooses their number
// anew; the revision never falls. Every window that begins after SetLimit has
// returned obeys the new limit. Capacity that moves between shards
// follows as the log empties, within one window; until then less than the new
// limit may be available. Of several changes at once one wins, as a whole.
//
// It returns when every shard has adopted the change, or a later one that came before it was
// through. If some could not be reached, the change is stored and will be finished by whichever
// process sees them next; the error is then a *ShardError for each. ErrUnavailable means that
// nothing was changed, because no majority of the nodes that keep the records answers. The limit of
// a key of a Family is the family's, or comes with the call: ErrFamilyLimit.
func (l *Limiter) SetLimit(ctx context.Context, limit Limit) error {
	return l.in.SetLimit(ctx, limit.in())
}

// Rebalance arranges the limit anew over the nodes of this Client that do not
// drain, and has the records kept at such nodes. The limit itself stays what it is, and so does the
// number of shards unless it was chosen for the limit (Limit.Shards 0).
// It works and fails as SetLimit does; if the shards are where they should be, it does nothing.
//
// The capacity of the shards that leave follows as their logs empty. When State.Settled, nothing
// of the limit is left where it was.
func (l *Limiter) Rebalance(ctx context.Context) error { return l.in.Rebalance(ctx) }

// Reset forgets all usage: the whole limit is free at once, that of a shard in quarantine within
// 5 s. A shard that could not be reached keeps its log; the error is then a *ShardError for each.
func (l *Limiter) Reset(ctx context.Context) error { return l.in.Reset(ctx) }

// Delete removes the limit and its usage from Redis, as it is stored now. Delete what nothing uses
// any more. A limit that is not stored is deleted already: the result is nil, and nothing is
// declared.
//
// Handles of this Client are of no use any more: what is called on them, and who waits, gets
// ErrNotFound. Client.Limiter declares the limit anew.
//
// Another process that uses the limit is not told. It goes on with the layout it knows as after a
// loss of memory, see Config.AfterLoss: a shard that it used lately is shut for as long as that
// says. With windows above a minute the permits that it was granted before then count again, as do
// those of other processes but this one. It stores its layout again when it next reads the record:
// within 15 seconds of use. Permits that were on their way to a call during Delete count as used
// after it. Reset forgets usage at once.
//
// The error is a *ShardError for each place that could not be reached. What is left there expires
// by itself unless a process uses it. With ErrUnavailable no place could be reached, and nothing
// has changed.
func (l *Limiter) Delete(ctx context.Context) error { return l.in.Delete(ctx) }
