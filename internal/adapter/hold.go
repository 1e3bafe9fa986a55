package adapter

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// Waiter waits for permits.
type Waiter interface {
	Settler
	Acquire(ctx context.Context, n int64) (shardlimit.Decision, error)
}

// Pauses are the pauses that servers asked for.
type Pauses interface {
	Wait(ctx context.Context, key string) error
	Left(ctx context.Context, key string) (time.Duration, error)
	Begin(ctx context.Context, key string, d time.Duration) error
}

// Taken is what a request took. Nil means that it took nothing.
type Taken struct {
	from     Settler
	decision shardlimit.Decision
}

// Settle turns what was taken into what was used, even if the request has ended.
func (t *Taken) Settle(ctx context.Context, used int64) error {
	if t == nil {
		return nil
	}
	return t.from.Settle(context.WithoutCancel(ctx), t.decision, used)
}

// Hold returns when a request has its permits and there is no pause. A nil Waiter wants no permits.
// Hold records how long that took.
func (m *Meters) Hold(ctx context.Context, pauses Pauses, key string, w Waiter, cost int64) (*Taken, error) {
	began := time.Now()
	got, err := hold(ctx, pauses, key, w, cost)
	m.waited(ctx, time.Since(began), err)
	return got, err
}

// hold asks Redis for pauses only when the request has its permits, because one can have begun
// meanwhile.
func hold(ctx context.Context, pauses Pauses, key string, w Waiter, cost int64) (*Taken, error) {
	for {
		if err := pauses.Wait(ctx, key); err != nil {
			return nil, err
		}
		var got *Taken
		if cost != 0 && !IsNil(w) {
			d, err := w.Acquire(ctx, cost)
			if err != nil {
				return nil, err
			}
			got = &Taken{w, d}
		}
		left, _ := pauses.Left(ctx, key) // with an error it is what this process knows
		if left == 0 && ctx.Err() == nil {
			return got, nil
		}
		if got != nil {
			GiveBack(ctx, got.from, got.decision)
		}
		if left == 0 {
			return nil, clock.Ended(ctx)
		}
	}
}
