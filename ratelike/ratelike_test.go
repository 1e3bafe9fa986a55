package ratelike_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/ratelike"
)

// shape is what code expects that was written for golang.org/x/time/rate.
type shape interface {
	Allow() bool
	AllowN(t time.Time, n int) bool
	Wait(ctx context.Context) error
	WaitN(ctx context.Context, n int) error
	Burst() int
	Tokens() float64
	TokensAt(t time.Time) float64
}

var _ shape = (*ratelike.Limiter)(nil)

// exampleClient is a client of a node in this process, and how to close both.
func exampleClient() (*shardlimit.Client, func()) {
	servers := must(embedded.Start(1))
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), CallTimeout: time.Minute}))
	return client, func() { client.Close(); servers.Close() }
}

// must returns what a call returned that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func ExampleNew() {
	client, stop := exampleClient()
	defer stop()
	shared := must(client.Limiter(context.Background(), "mails", shardlimit.Limit{
		Permits: 1, Per: time.Hour, Algorithm: shardlimit.TokenBucket, Burst: 2}))
	var limiter interface{ Allow() bool } = ratelike.New(shared)
	fmt.Println(limiter.Allow(), limiter.Allow(), limiter.Allow())
	// Output: true true false
}

func ExampleLimiter_ReserveN() {
	client, stop := exampleClient()
	defer stop()
	shared := must(client.Limiter(context.Background(), "calls", shardlimit.Limit{
		Permits: 60, Per: time.Hour, Algorithm: shardlimit.TokenBucket, Burst: 1}))
	limiter := ratelike.New(shared)
	for range 3 {
		r := limiter.ReserveN(time.Now(), 1)
		fmt.Println(r.OK(), r.Delay().Round(time.Minute))
	}
	// Output:
	// true 0s
	// true 1m0s
	// true 2m0s
}

func TestItBehavesLikeARateLimiter(t *testing.T) {
	client := limittest.Standalone(t).Client(t)
	var failures []error
	l := ratelike.New(limittest.Limiter(t, client, "l", shardlimit.Limit{
		Permits: 60, Per: time.Hour, Algorithm: shardlimit.TokenBucket, Burst: 3}))
	l.Failed = func(err error) { failures = append(failures, err) }
	now := time.Now()
	if l.Limit() != 1.0/60 || l.Burst() != 3 || l.Tokens() != 3 {
		t.Errorf("limit %v, burst %d, tokens %v", l.Limit(), l.Burst(), l.TokensAt(now))
	}
	if !l.AllowN(now, 0) || !l.AllowN(now, 3) || l.Allow() || l.WaitN(t.Context(), 0) != nil || len(failures) != 0 {
		t.Errorf("what is free is not granted, or more is: %v", failures)
	}
	first, second := l.Reserve(), l.ReserveN(now, 2)
	if !first.OK() || !second.OK() || second.DelayFrom(now).Round(time.Minute) != 3*time.Minute {
		t.Errorf("%v, %v", first.Delay(), second.Delay())
	}
	second.Cancel()
	if again := l.Reserve(); again.Delay().Round(time.Minute) != 2*time.Minute {
		t.Errorf("after a cancellation: %s", again.Delay())
	}
	limittest.ErrorIs(t, l.Wait(limittest.Shortly(t, time.Minute)), shardlimit.ErrWaitTooLong)
	if r := l.ReserveN(now, 4); r.OK() || r.Delay() != ratelike.InfDuration ||
		r.DelayFrom(now) != ratelike.InfDuration ||
		!errors.Is(errors.Join(failures...), shardlimit.ErrExceedsLimit) {
		t.Errorf("more than the burst: %v", failures)
	}
	if r := l.ReserveN(now, 0); !r.OK() || r.Delay() != 0 || r.DelayFrom(now) != 0 {
		t.Errorf("nothing comes in %s", r.Delay())
	}
	client.Close()
	if failures = nil; l.Allow() || l.Tokens() != 0 || !errors.Is(errors.Join(failures...), shardlimit.ErrClosed) {
		t.Errorf("closed: %v", failures)
	}
	first.CancelAt(now)
}

// Under a LeakyBucket only a turn that has come is a yes, and the others stay free.
func TestATurnThatIsLaterIsANo(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := ratelike.New(f.Limiter(t, shardlimit.Limit{
			Permits: 10, Per: time.Hour, Algorithm: shardlimit.LeakyBucket}))
		var yes atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					if l.Allow() {
						yes.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if yes.Load() != 1 || l.Tokens() != 9 {
			t.Errorf("%d of all callers had a yes, and %v are there", yes.Load(), l.Tokens())
		}
	})
}

// A wait for nothing ends as ctx did.
func TestAWaitForNothingEndsWithItsContext(t *testing.T) {
	l, boom := ratelike.New(&shardlimit.Limiter{}), errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	limittest.Must(t, l.WaitN(ctx, 0))
	cancel(boom)
	limittest.ErrorIs(t, l.WaitN(ctx, 0), boom)
	limittest.ErrorIs(t, l.WaitN(ctx, 0), context.Canceled)
}
