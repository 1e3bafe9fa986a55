package shardlimit

import (
	"context"
	"time"
)

// Acquire is WaitN that returns its Decision, so that Settle can give back what was not used. It
// blocks until n permits were granted together, and until their turn under LeakyBucket, so Delay
// is 0. Errors are those of WaitN. With ErrWaitTooLong RetryAfter tells how long it takes until
// another try can succeed, and is 0 if this process does not know.
//
// Settle gives back nothing of a turn that has come. Of permits of a TokenBucket that were reserved
// first, as WaitN says, it may give back less: they count as used once they are due.
func (l *Limiter) Acquire(ctx context.Context, n int64) (Decision, error) {
	m := l.hold()
	defer m.core.release()
	return m.wait(ctx, n)
}

// Acquire is WaitN that returns its Decision, so that Set.Settle can give back what was not used.
// Errors are those of WaitN, and the Decision is as Limiter.Acquire says.
func (s *Set) Acquire(ctx context.Context, n int64) (Decision, error) {
	if s.line.Len() == 0 {
		d, err := s.AllowN(ctx, n)
		if err != nil && !s.waitsOn(err) {
			return d, err
		}
		if d.Allowed {
			return s.sleepOut(ctx, d)
		}
		if err := d.inTime(ctx); err != nil {
			return d, err
		}
	} else if first := time.Duration(s.notBefore.Load() - s.now()); inTime(ctx, first) != nil {
		return Decision{RetryAfter: first}, inTime(ctx, first)
	}
	within, stop := s.untilClosed(ctx)
	defer stop()
	leave, err := s.line.Join(within)
	if err != nil {
		return Decision{}, err
	}
	d, err := s.head(within, n)
	leave() // who sleeps until its turn does not hold up those behind it
	if err != nil {
		return d, err
	}
	return s.sleepOut(within, d)
}
