package waiting

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Who waits through an outage is served as soon as Redis is back, alone and in a Set.
func TestWaitOutAnOutage(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerHour(1000), limittest.OnOutage(shardlimit.WaitOut))
		limittest.MustGet(t, l, 1)
		f.Bubble[0].Down.Store(true)
		time.AfterFunc(10*time.Second, func() { f.Bubble[0].Down.Store(false) })
		began, done := time.Now(), make(chan error)
		go func() { done <- l.Wait(t.Context()) }()
		go func() { done <- limittest.Set(1, l).Wait(t.Context()) }()
		for range 2 {
			// Two naps and two pauses of a node may come one after the other.
			err, took := <-done, time.Since(began)
			if err != nil || took < 10*time.Second || took > 15*time.Second {
				t.Errorf("%v after %s", err, took)
			}
		}
	})
}

// Of permits that callers waited for and were granted together, each gives back its own, once.
func TestWhatWasWaitedForIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		for _, scope := range []shardlimit.Scope{shardlimit.Global, shardlimit.PerParticipant} {
			for _, shards := range []int{1, 3} {
				limit := shardlimit.Limit{Permits: 6, Per: time.Hour, Shards: shards, Scope: scope}
				l := limittest.Limiter(t, f.Client(t), fmt.Sprint(scope, shards), limit)
				limittest.MustGet(t, l, 6)
				served := make(chan shardlimit.Decision)
				for range 6 {
					joinLine(t, l, func() {
						d, err := l.Acquire(t.Context(), 1)
						limittest.ErrorIs(t, err, nil)
						served <- d
					})
				}
				limittest.Must(t, l.Reset(t.Context()))
				left, remaining := int64(6), map[int64]bool{}
				for range 6 {
					d := <-served
					if !d.Allowed || d.Granted != 1 || d.Limit != 6 || d.Delay != 0 || d.RetryAfter != 0 {
						t.Errorf("%+v", d)
					}
					if d.Remaining > 0 && d.NextAfter != 0 {
						t.Errorf("%d remain, and the next comes in %s", d.Remaining, d.NextAfter)
					}
					remaining[d.Remaining] = true
					for range 2 {
						limittest.Must(t, limittest.Once(l.Settle(t.Context(), d, 0)))
					}
					if left--; limittest.Peek(t, l).Used != left {
						t.Errorf("%v, %d shards: %d used, want %d", scope, shards, limittest.Peek(t, l).Used, left)
					}
				}
				if shards == 1 && len(remaining) != 6 {
					t.Errorf("what remained after each: %v", remaining)
				}
				limittest.MustGet(t, l, 6)
			}
		}
	})
}

// Who waited for permits has them, and can give them back, under every algorithm as far as the docs
// of Acquire say.
func TestAcquireUnderEveryAlgorithm(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for i := range 4 {
			shards, n := 1+i%2, []int64{1, 4}[i/2]
			if !extent.Plays(int(a) + 2*shards + int(n)/2) {
				continue
			}
			limittest.RunInBubble(t, fmt.Sprint(a, shards, n), 2, func(t *testing.T, f limittest.Fleet) {
				l := f.Limiter(t, shardlimit.Limit{Permits: 4, Per: time.Minute, Algorithm: a, Shards: shards})
				limittest.MustGet(t, l, 4)
				began := time.Now()
				d, err := l.Acquire(t.Context(), n)
				if err != nil || !d.Allowed || d.Granted != n || d.Delay != 0 || time.Since(began) < time.Second {
					t.Fatalf("%+v, %v after %s", d, err, time.Since(began))
				}
				used := limittest.Peek(t, l).Used
				for range 2 {
					limittest.Must(t, limittest.Once(l.Settle(t.Context(), d, 0)))
				}
				least, most := n, n
				switch {
				case a == shardlimit.LeakyBucket: // a turn that has come is used
					least, most = 0, 0
				case a == shardlimit.TokenBucket && n > 1:
					least = -n
				}
				if back := used - limittest.Peek(t, l).Used; back < least || back > most {
					t.Errorf("%d of %d came back", back, n)
				}
			})
		}
	}
}

func TestErrorsOfAcquire(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		l := limittest.Limiter(t, c, "l", shardlimit.PerMinute(2))
		m := limittest.Limiter(t, c, "m", shardlimit.PerHour(2))
		limittest.MustGet(t, l, 2)
		boom := errors.New("boom")
		for want, n := range map[error]int64{boom: 2, context.Canceled: 1, shardlimit.ErrExceedsLimit: 3,
			shardlimit.ErrInvalidPermits: -1} {
			for name, acquire := range map[string]func(context.Context) (shardlimit.Decision, error){
				"Acquire": func(ctx context.Context) (shardlimit.Decision, error) { return l.Acquire(ctx, n) },
				"a set's": shardlimit.All(l.N(n), m.N(min(n, 2))).Acquire,
			} {
				ctx, end := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { end(boom) })
				if d, err := acquire(ctx); !errors.Is(err, want) || d.Allowed || d.Granted != 0 {
					t.Errorf("%s: %+v, %v; want %v", name, d, err, want)
				}
			}
		}
	})
}

func TestASetGivesBackWhatItAcquired(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		l := limittest.Limiter(t, c, "l", shardlimit.PerMinute(2))
		evenly := limittest.Limiter(t, c, "m",
			shardlimit.Limit{Permits: 60, Per: time.Minute, Algorithm: shardlimit.LeakyBucket})
		set := limittest.Set(2, l, limittest.Limiter(t, c, "n", shardlimit.PerHour(9)), evenly)
		limittest.MustGet(t, l, 2)
		limittest.MustGet(t, evenly, 1)
		d, err := set.Acquire(t.Context())
		if err != nil || !d.Allowed || d.Granted != 6 || d.Delay != 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		for range 2 {
			limittest.Must(t, limittest.Once(set.Settle(t.Context(), d, 0, 0, 0)))
		}
		limittest.Uses(t, l, 0)
		if d, err := set.Acquire(t.Context()); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		late, err := set.Acquire(limittest.Shortly(t, time.Second))
		if !errors.Is(err, shardlimit.ErrWaitTooLong) || late.Allowed || late.RetryAfter < time.Second {
			t.Errorf("%+v, %v", late, err)
		}
	})
}

// A waiter is served soon after a node is back that had all of the limit or a part, however long
// the window is: at the latest when the limiter looks at its record again, every 15 s. No waiter is
// told before that its deadline cannot be met.
func TestWaitersHearThatANodeIsBack(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		for _, n := range []int64{1, 2} {
			for _, kind := range []string{"limiter", "key"}[:3-nodes] { // a key has one shard
				what := fmt.Sprintf("%d nodes, %d permits of a %s", nodes, n, kind)
				limittest.RunInBubble(t, what, nodes, func(t *testing.T, f limittest.Fleet) {
					c := f.Client(t, limittest.OnOutage(shardlimit.FailLocal),
						func(c *shardlimit.Config) { c.Participants = 1000 })
					l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: nodes})
					if kind == "key" {
						l = limittest.Family(t, c, "f", shardlimit.PerHour(100)).Limiter("k")
					}
					limittest.MustGet(t, l, 1)
					f.Bubble[nodes-1].Down.Store(true)
					limittest.Exhaust(t, l, 100)
					back := time.Now().Add(5 * time.Second)
					time.AfterFunc(time.Until(back), func() { f.Bubble[nodes-1].Down.Store(false) })
					for _, ctx := range []context.Context{limittest.Shortly(t, time.Minute), t.Context()} {
						if err := l.WaitN(ctx, n); err != nil || time.Since(back) > 20*time.Second {
							t.Errorf("%v, %s after the node is back", err, time.Since(back))
						}
					}
				})
			}
		}
	}
}
