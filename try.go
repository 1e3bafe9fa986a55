package shardlimit

import (
	"context"
	"errors"
	"time"
)

// TryAcquire asks for n permits and waits for them, at most for the time given: 0 or less means not
// at all. It reports whether they were granted. That they did not come in time is no error. The
// error is that of ctx, if that ended before, or one of WaitN.
func (l *Limiter) TryAcquire(ctx context.Context, n int64, most time.Duration) (bool, error) {
	if most <= 0 {
		d, err := l.AllowN(ctx, n)
		return d.Allowed, err
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := l.WaitN(within, n)
	switch {
	case errors.Is(err, ErrUnavailable): // a node that is silent ends a call by a deadline, too
	case errors.Is(err, ErrWaitTooLong), ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return false, nil
	}
	return err == nil, err
}
