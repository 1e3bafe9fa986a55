package httplimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// Pauses are the pauses that servers asked for, by key: while one lasts nobody calls. They are
// those of one process, or of a fleet that shares a Redis. They are safe for concurrent use.
//
// A shared pause is a TokenBucket for each key, of a permit for each millisecond, that nobody asks
// for permission. Who begins a pause takes as many permits as it has milliseconds; the pause lasts
// until the bucket is full again.
type Pauses struct {
	longest time.Duration
	family  *shardlimit.Family // nil: only of this process
	turns   *shardlimit.Family // one at a time lengthens a pause

	mu    sync.Mutex
	known map[string]time.Time // when pauses end, as far as this process has heard
	sweep int                  // at which size of known those that are over are forgotten
}

// NewPauses are pauses of this process alone, of at most longest each. It panics if longest is not
// positive.
func NewPauses(longest time.Duration) *Pauses {
	if longest <= 0 {
		panic("httplimit: the longest pause must be positive")
	}
	return &Pauses{longest: longest, known: map[string]time.Time{}, sweep: 1024}
}

// SharedPauses are pauses of all processes that say the same name, of at most longest each, from a
// millisecond to 24 hours; else the error is ErrInvalidLimit. The name is that of a Family that
// this declares, beside another with ".turns" behind it; other errors are those of Client.Family.
// While Redis is away each process keeps to the pauses that it has heard of itself.
func SharedPauses(ctx context.Context, client *shardlimit.Client, name string, longest time.Duration) (*Pauses, error) {
	if longest < time.Millisecond || longest > 24*time.Hour {
		return nil,
			fmt.Errorf("%w: the longest pause is %s, it must be 1ms to 24h", shardlimit.ErrInvalidLimit, longest)
	}
	p := NewPauses(longest)
	var err error
	p.family, err = client.Family(ctx, name, shardlimit.Limit{Algorithm: shardlimit.TokenBucket, Permits: 1000,
		Per: time.Second, Burst: 2 * millis(longest)}) // twice, so that the permits do not run out
	if err != nil {
		return nil, err
	}
	if p.turns, err = client.Family(ctx, name+".turns", shardlimit.Limit{Permits: 1, Per: turnLasts}); err != nil {
		return nil, err
	}
	return p, nil
}

const (
	// turnLasts is how long one process may take to look and to take, so that two do not add their
	// pauses up. One that dies keeps the others waiting for that long.
	turnLasts = 100 * time.Millisecond
	// turnWithin is how long a process waits for its turn.
	turnWithin = time.Second
	// beginWithin bounds how long it takes to tell the fleet of a pause.
	beginWithin = 2 * time.Second
)

// Begin has nobody call for d from now on, but for no longer than the longest pause. A pause that
// lasts longer already stays as it is; two do not add up. It takes a few calls to Redis, each of at
// most Config.CallTimeout, and two seconds at most. When ctx ends it returns, but the fleet is told
// nevertheless, within that time. The error is why the others may not know: that of ctx,
// Limiter.Peek, Limiter.AllowUpTo or Limiter.Settle; this process keeps to the pause nevertheless.
func (p *Pauses) Begin(ctx context.Context, key string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	end := time.Now().Add(min(d, p.longest))
	p.note(key, end)
	if p.family == nil {
		return nil
	}
	told := make(chan error, 1)
	go func() { // ends soon, see beginWithin
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginWithin)
		defer cancel()
		told <- p.tell(own, adapter.Bounded(key), end)
	}()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
}

// tell has the fleet pause until then.
func (p *Pauses) tell(ctx context.Context, key string, end time.Time) error {
	for began := time.Now(); time.Since(began) < turnWithin; {
		missing, err := p.missing(ctx, key, end)
		if err != nil || missing <= 0 {
			return err
		}
		turn, err := p.turns.Limiter(key).Allow(ctx)
		if err != nil {
			return err
		}
		if turn.Allowed {
			err = p.lengthen(ctx, key, end)
			return errors.Join(err, p.turns.Limiter(key).Settle(ctx, turn, 0))
		}
		if !clock.Sleep(ctx, min(turn.RetryAfter, turnLasts/5)) {
			return clock.Ended(ctx)
		}
	}
	return p.lengthen(ctx, key, end) // rather a pause that is too long than none
}

// missing is by how much the shared pause ends before that.
func (p *Pauses) missing(ctx context.Context, key string, end time.Time) (time.Duration, error) {
	st, err := p.family.Limiter(key).Peek(ctx)
	return time.Until(end) - st.ResetAfter, err
}

// lengthen has the shared pause last until then.
func (p *Pauses) lengthen(ctx context.Context, key string, end time.Time) error {
	missing, err := p.missing(ctx, key, end)
	if err != nil || missing <= 0 {
		return err
	}
	// One more, because the bucket tells its time in whole microseconds, rounded down.
	_, err = p.family.Limiter(key).AllowUpTo(ctx, millis(missing)+1)
	return err
}

// Left is for how long nobody may call yet, 0 if there is no pause. It takes one call to Redis, of
// at most Config.CallTimeout. With an error, of Limiter.Peek, it is what this process has heard.
func (p *Pauses) Left(ctx context.Context, key string) (time.Duration, error) {
	if p.family == nil {
		return p.heard(key), nil
	}
	st, err := p.family.Limiter(adapter.Bounded(key)).Peek(ctx)
	if err == nil && len(st.Shards) > 0 && st.Shards[0].Err != nil {
		err = st.Shards[0].Err
	}
	if err != nil {
		return p.heard(key), err
	}
	if st.ResetAfter > 0 {
		p.note(key, time.Now().Add(min(st.ResetAfter, p.longest)))
	}
	return p.heard(key), nil
}

// heard is how long a pause lasts as far as this process knows.
func (p *Pauses) heard(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	end, found := p.known[key]
	if !found {
		return 0
	}
	left := time.Until(end)
	if left <= 0 {
		delete(p.known, key)
	}
	return max(left, 0)
}

// note remembers a pause. Those that are over are forgotten when many have come together.
func (p *Pauses) note(key string, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end.After(p.known[key]) {
		p.known[key] = end
	}
	if len(p.known) < p.sweep {
		return
	}
	now := time.Now()
	maps.DeleteFunc(p.known, func(_ string, end time.Time) bool { return !end.After(now) })
	p.sweep = max(1024, 2*len(p.known))
}

// Wait sleeps until this process knows of no pause, without asking Redis. It returns ErrWaitTooLong
// at once if one outlasts the deadline of ctx, or that ctx has ended, and the cause.
func (p *Pauses) Wait(ctx context.Context, key string) error {
	for {
		left := p.heard(key)
		if left == 0 {
			return nil
		}
		if at, ok := ctx.Deadline(); ok && time.Until(at) < left {
			return fmt.Errorf("%w: the server asked for a pause, which lasts another %s", shardlimit.ErrWaitTooLong,
				left)
		}
		if !clock.Sleep(ctx, left) {
			return clock.Ended(ctx)
		}
	}
}

// millis is a duration in whole milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
