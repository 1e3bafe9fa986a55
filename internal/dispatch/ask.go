package dispatch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Ask is what one call wants from one shard, and what it gets. It lives on the
// caller's stack: a batch knows how many asks it carries, not which. The callers
// who sleep are many, and what lies on their stacks has left the caches when they
// wake. So the functions that put it on a batch, and those that read the answer, are
// called before and after the caller sleeps, and not around it.
type Ask struct {
	Account *Account // whom it is for
	N       int64
	Since   int64 // when the call began, on the process' clock
	UpTo    bool  // take what there is, up to n; else all or nothing
	By      int64 // of a leaky bucket: no turn that comes later, on the process' clock; 0: any

	// Its place, set by join:
	class  int32 // of the batch's classes
	batch  *batch
	place  int64  // how many of the class came before
	serial uint64 // no other ask of the batch has it
	unsent bool   // its caller left before the batch was sent
	Answer
}

// shape is how the ask appears in a call: count asks of size permits each.
func (a *Ask) shape() (size, count int64) {
	if a.UpTo {
		return 1, a.N
	}
	return a.N, 1
}

// Answer is what the shard said to one ask.
type Answer struct {
	Granted int64
	At      clock.ServerTime // shard time of the grant
	Ticket  uint64           // tells this grant from every other one of the shard
	Now     int64            // when the reply came, on the process' clock
	Rest    int64            // what is free after it, as far as this process knows
	First   time.Duration    // granted by a leaky bucket: until its first permit may act, from now on
	Delay   time.Duration    // likewise: until its last may
	Retry   time.Duration    // refused: until it could be granted; UnknownRetry if not told
}

// UnknownRetry is a Retry that was not told.
const UnknownRetry = time.Duration(-1)

// Ask asks the shard for the participant and waits for the answer, which is put in the ask, at most
// until ctx ends or the call has used up the call timeout. now is the
// time. An error for which script.NotExecuted is false leaves open whether
// permits were spent.
func (acc *Account) Ask(ctx context.Context, a *Ask, now int64) error {
	a.Account = acc
	if a.By != 0 {
		return acc.turnBy(ctx, a, now)
	}
	timeout, within := acc.Shard.env.CallTimeout, ctx
	if acc.Shard.sendQueue().tooOld(now - a.Since) {
		return ErrOverloaded // no batch is sent with it
	}
	if left := timeout - time.Duration(now-a.Since); left < timeout/8*7 { // it may run out of time before a batch does
		var why error // nil: context.DeadlineExceeded, as if the node was silent
		if left < timeout/2 {
			why = ErrOverloaded // a call that came so late tells nothing of the node
		}
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, left, why)
		defer cancel()
	}
	err := a.fill(within)
	if a.unsent && ctx.Err() == nil { // it waited here until its time was over
		return ErrOverloaded
	}
	return err
}

// fill gets the answer to an ask from a batch, or from another one if that was dissolved.
func (a *Ask) fill(ctx context.Context) error {
	joined, err := a.Join(ctx)
	if joined {
		a.Sleep()
		err = a.Wake(ctx)
	}
	return err
}

// Join adds the ask to a batch of the shard of its account. If joined is false it is over: answered
// or failed. Else the shard's lock is held; the caller must call Sleep, which lets go of it, and
// then Wake.
func (a *Ask) Join(ctx context.Context) (joined bool, err error) {
	sh := a.Account.Shard
	if err := ctx.Err(); err != nil {
		return false, err
	}
	var link *trace.Link
	if sh.env.Telemetry.Tracing {
		link = telemetry.LinkTo(ctx)
	}
	if !sh.join(a) {
		return false, ErrOverloaded
	}
	if link != nil {
		a.batch.link(link)
	}
	if done := ctx.Done(); done != nil && done != a.batch.watched {
		return false, a.watch(ctx, done)
	}
	return true, nil
}

// Wake reads the answer to an ask whose caller has slept. A caller that was woken because
// ctx has ended leaves; one that was woken for another reason sleeps on.
func (a *Ask) Wake(ctx context.Context) error {
	sh := a.Account.Shard
	for !a.batch.over.Load() {
		sh.mu.Lock() // who watched the context woke the crowd
		if a.batch.over.Load() {
			sh.mu.Unlock()
			break
		}
		if ctx.Err() != nil {
			sh.quit(a)
			sh.mu.Unlock()
			return clock.Ended(ctx)
		}
		a.Sleep()
	}
	return a.read(ctx)
}

// read has the answer to an ask from its batch, which was answered. It asks again if the batch was
// dissolved: the young go on another one. Those who waited for long would be in a hurry there, and
// each would need a script call of its own.
func (a *Ask) read(ctx context.Context) error {
	err := a.batch.read(a)
	if err != errDissolved { //nolint:errorlint // it is never wrapped: this is the hot path
		return err
	}
	e := a.Account.Shard.env
	now := e.Clock.Now()
	if time.Duration(now-a.Since) > e.CallTimeout/2 {
		return ErrOverloaded
	}
	return a.Account.Ask(ctx, a, now) // it may stand behind who is younger
}

// MaxAge returns the age of a call above which it is not sent any more: less than the call timeout,
// for the sake of the others of its batch.
func (e *Env) MaxAge() int64 { return int64(e.CallTimeout / 4 * 3) }

// Hurried reports whether a call has so little time left that it must have waited in a queue of
// this process before. What was held up by one stalled shard has about a half.
func (e *Env) Hurried(left time.Duration) bool { return left < e.CallTimeout/8*3 }
