package clock

import (
	"context"
	"errors"
	"time"
)

// Ended returns why ctx has ended. The error is the cause that was given, and context.Canceled or
// context.DeadlineExceeded as well, as callers expect who know nothing of the cause. It is nil if
// ctx has not ended.
func Ended(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return &ended{cause, err}
}

// ended is a cause that does not tell that it ended a context.
type ended struct{ cause, err error }

func (e *ended) Error() string   { return e.cause.Error() }
func (e *ended) Unwrap() []error { return []error{e.cause, e.err} }

// Sleep waits, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
