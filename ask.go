package shardlimit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// ask is what one call wants from one shard, and what it gets. It lives on the
// caller's stack: a batch knows how many asks it carries, not which. The callers
// who sleep are many, and what lies on their stacks has left the caches when they
// wake. So the functions that put it on a batch, and those that read the answer, are
// called before and after the caller sleeps, and not around it.
type ask struct {
	seat  *seat // whom it is for
	n     int64
	since int64 // when the call began, on the process' clock
	upTo  bool  // take what there is, up to n; else all or nothing

	// Its place, set by join:
	class  int32 // of the batch's classes
	batch  *batch
	place  int64  // how many of the class came before
	serial uint64 // no other ask of the batch has it
	answer
}

// shape is how the ask appears in a call: count asks of size permits each.
func (a *ask) shape() (size, count int64) {
	if a.upTo {
		return 1, a.n
	}
	return a.n, 1
}

// answer is what the shard said to one ask.
type answer struct {
	granted int64
	at      int64         // shard time of the grant, microseconds
	ticket  uint64        // tells this grant from every other one of the lane
	now     int64         // when the reply came, on the client's clock
	rest    int64         // what is free after it, as far as this process knows
	delay   time.Duration // granted by a leaky bucket: until its last permit may act, from now on
	retry   time.Duration // refused: until it could be granted; unknownRetry if not told
}

const unknownRetry = time.Duration(-1)

// ask asks the shard for the participant and waits for the answer, which is put in the ask, at most
// until ctx ends or the call has used up the call timeout. now is the
// time. An error for which script.NotExecuted is false leaves open whether
// permits were spent.
func (s *seat) ask(ctx context.Context, a *ask, now int64) error {
	l := s.lane
	a.seat = s
	if age := time.Duration(now - a.since); age > l.env.callTimeout/2 {
		return l.askLate(ctx, a, age)
	}
	return l.fill(ctx, a)
}

// askLate is ask for a call that may run out of time before a batch does.
func (l *lane) askLate(ctx context.Context, a *ask, age time.Duration) error {
	left := l.env.callTimeout - age
	if left <= 0 {
		return errTooLate
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, errTooLate)
	defer cancel()
	return l.fill(ctx, a)
}

// fill gets the answer to an ask from a batch, or from another one if that was dissolved.
func (l *lane) fill(ctx context.Context, a *ask) error {
	boarded, err := l.board(ctx, a)
	if boarded {
		a.sleep()
		err = l.wake(ctx, a)
	}
	return err
}

// board puts an ask on a batch. If boarded is false it is over: answered or failed. Else
// the lane's lock is held; the caller must call sleep, which lets go of it, and then wake.
func (l *lane) board(ctx context.Context, a *ask) (boarded bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	var link *trace.Link
	if l.env.telemetry.Tracing {
		link = telemetry.LinkTo(telemetry.SpanOf(ctx))
	}
	l.join(a)
	if link != nil {
		a.batch.link(link)
	}
	if done := ctx.Done(); done != nil && done != a.batch.watched {
		return false, l.watch(ctx, a, done)
	}
	return true, nil
}

// wake reads the answer to an ask whose caller has slept. A caller that was woken because
// ctx has ended leaves; one that was woken for another reason sleeps on.
func (l *lane) wake(ctx context.Context, a *ask) error {
	for !a.batch.over.Load() {
		l.mu.Lock() // who watched the context woke the crowd
		if a.batch.over.Load() {
			l.mu.Unlock()
			break
		}
		if ctx.Err() != nil {
			l.quit(a)
			l.mu.Unlock()
			return context.Cause(ctx)
		}
		a.sleep()
	}
	return l.read(ctx, a)
}

// read has the answer to an ask from its batch, which has landed.
func (l *lane) read(ctx context.Context, a *ask) error {
	err := a.batch.read(a)
	l.recycle(a.batch)
	return l.heed(ctx, a, err)
}

// heed passes on what a batch said to an ask, or asks again if the batch was dissolved.
func (l *lane) heed(ctx context.Context, a *ask, err error) error {
	if err == errDissolved { //nolint:errorlint // it is never wrapped: this is the hot path
		return l.askAgain(ctx, a)
	}
	return err
}

// askAgain is for an ask whose batch was dissolved.
func (l *lane) askAgain(ctx context.Context, a *ask) error {
	age := l.env.clock.Now() - a.since
	if age > l.env.boarding() {
		return errTooLate
	}
	return l.askLate(ctx, a, time.Duration(age))
}

// boarding is the age of a call above which it does not depart any more: more
// than half of the call timeout, or a call that a stalled shard has held up for
// half its time could not be served by another; less than all, for the sake of
// the others on board.
func (e *env) boarding() int64 { return int64(e.callTimeout / 4 * 3) }

// hurried reports whether a call has so little time left that it must have waited in a queue of this
// process before. What was held up by one stalled shard has about a half.
func (e *env) hurried(left time.Duration) bool { return left < e.callTimeout/8*3 }
