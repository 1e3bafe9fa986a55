package pace

import (
	"context"
	"time"
)

// Gate hands out permits. It is called by one goroutine at a time.
type Gate interface {
	// Take asks for up to n permits (n at least 1) that are free now, and does
	// not wait for them. It returns within a bounded time even though ctx may
	// have no deadline. An error means that nobody could answer just now, and
	// that no permit came; it is asked again after a pause. An error that
	// wraps ErrGateClosed is final.
	Take(ctx context.Context, n int64) (Grant, error)
}

// Grant is what a Gate answered.
type Grant struct {
	// Permits granted, 0 to what was asked for.
	Permits int64
	// Limit in force, in permits per window of Per; 0 if they are not known.
	Limit int64
	Per   time.Duration
	// RetryAfter, if nothing was granted, is when to ask again.
	RetryAfter time.Duration
	// GiveBack gives all of Permits back, if that is possible; it may be nil.
	GiveBack func(context.Context)
}
