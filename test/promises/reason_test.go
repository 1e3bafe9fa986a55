package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// becauseOf denies n permits by a shard, and then from memory, for that reason.
func becauseOf(t *testing.T, l *shardlimit.Limiter, n int64, want shardlimit.Reason) {
	t.Helper()
	for _, from := range []string{"a shard", "memory"} {
		if d := limittest.Denied(t, l, n); d.Reason != want {
			t.Errorf("denied by %s: %q, want %q", from, d.Reason, want)
		}
	}
}

// A limit that is used up is full, and owes once somebody has used more than there was: limits,
// keys and what each participant has for itself. Another process that looks hears the same.
func TestADenialSaysFullOrOwes(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for _, kind := range []string{"limit", "key", "own"} {
			limittest.RunInBubble(t, a.String()+" "+kind, 1, func(t *testing.T, f limittest.Fleet) {
				limit, own := shardlimit.Limit{Permits: 3, Per: time.Hour, Algorithm: a}, f.Client(t)
				open := func() *shardlimit.Limiter {
					switch kind {
					case "key":
						return limittest.Family(t, f.Client(t), "f", limit).Limiter("ann")
					case "own": // another process has it for itself
						limit.Scope = shardlimit.PerParticipant
						return limittest.Limiter(t, own, "l", limit)
					}
					return f.Limiter(t, limit)
				}
				l := open()
				d := limittest.MustGet(t, l, 3)
				becauseOf(t, l, 1, shardlimit.ReasonFull)
				becauseOf(t, l, 2, shardlimit.ReasonFull)
				limittest.Must(t, l.Settle(t.Context(), d, 5))
				for _, l := range []*shardlimit.Limiter{l, open()} {
					becauseOf(t, l, 1, shardlimit.ReasonOwes)
					becauseOf(t, l, 2, shardlimit.ReasonOwes)
				}
			})
		}
	}
}

// A limit that is closed, or whose node lost its memory, says so.
func TestADenialSaysClosedOrLostMemory(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t, limittest.AfterLoss(shardlimit.Quarantine))
		time.Sleep(5 * time.Minute)
		limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
		l, key := limittest.Limiter(t, c, "l", limit), limittest.Family(t, c, "f", limit).Limiter("ann")
		limittest.MustGet(t, l, 1)
		limittest.MustGet(t, key, 1)
		time.Sleep(5 * time.Second)
		f.Bubble[0].Redis.Restart()
		time.Sleep(time.Second)
		becauseOf(t, l, 1, shardlimit.ReasonLostMemory)
		becauseOf(t, l, 2, shardlimit.ReasonLostMemory)
		becauseOf(t, key, 1, shardlimit.ReasonLostMemory)

		limit.Mode = shardlimit.Closed
		closed := limittest.Limiter(t, c, "closed", limit)
		becauseOf(t, closed, 1, shardlimit.ReasonClosed)
		limittest.ErrorIs(t, limittest.Err(closed.Reserve(t.Context(), 1)), shardlimit.ErrLimitClosed)
	})
}

// Where a node is away, the reason is not that the rest is used up.
func TestADenialSaysOutage(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2})
		limittest.MustGet(t, l, 1)
		f.Bubble[0].Paused.Store(time.Now().Add(10 * time.Second).UnixNano())
		defer time.Sleep(20 * time.Second)
		if d := limittest.Denied(t, l, 10); d.Reason != shardlimit.ReasonOutage || d.Remaining == 0 {
			t.Errorf("of more than the other has: %q, %d left", d.Reason, d.Remaining)
		}
		limittest.Grants(t, l)
		becauseOf(t, l, 1, shardlimit.ReasonOutage)

		local := limittest.Away().Limiter(t, shardlimit.PerHour(1), limittest.OnOutage(shardlimit.FailLocal))
		limittest.MustGet(t, local, 1)
		becauseOf(t, local, 1, shardlimit.ReasonOutage)
	})
}

// A call that waited for others of its process until its time was up was late, whatever is free.
func TestADenialSaysLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 2).Distant(t, 20*time.Millisecond)
		l := f.Limiter(t, shardlimit.Limit{Permits: 1_000_000, Per: time.Minute, Shards: 8})
		var late atomic.Int64
		limittest.Together(200, func(int) (shardlimit.Decision, error) {
			d, err := l.AllowN(context.WithoutCancel(t.Context()), 150_000)
			if !d.Allowed && d.Remaining >= 150_000 && d.Reason != shardlimit.ReasonLate {
				t.Errorf("%q with %d left", d.Reason, d.Remaining)
			}
			if d.Reason == shardlimit.ReasonLate {
				late.Add(1)
			}
			return d, err
		})
		if late.Load() == 0 {
			t.Error("nobody was late")
		}
	})
}

// Every call that is refused is told of, once, with who asked for what and why; no other is.
func TestEveryRefusalIsHeardOf(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		var heard []string
		c.OnRefusal(func(_ context.Context, r shardlimit.Refusal) {
			heard = append(heard, fmt.Sprintf("%s/%s of %s: %d %s", r.Limiter, r.Key, r.Participant, r.Permits,
				r.Decision.Reason))
		})
		ctx, soon := t.Context(), limittest.Shortly(t, time.Second)
		l := limittest.Limiter(t, c, "l", shardlimit.PerHour(2)).As("shop", 1)
		ann := limittest.Family(t, c, "users", shardlimit.PerMinute(1)).Limiter("ann")
		leaky := limittest.Limiter(t, c, "leaky",
			shardlimit.Limit{Permits: 1, Per: time.Minute, Algorithm: shardlimit.LeakyBucket, Burst: 9}).As("shop", 1)
		limittest.MustGet(t, l, 1)
		limittest.MustGet(t, ann, 1)
		limittest.MustGet(t, leaky, 1)
		set, turns, none := shardlimit.All(l.N(1), ann.N(1)), shardlimit.All(l.N(1), leaky.N(1)), shardlimit.Decision{}
		refused := func(want string, wantErr error) (answer func(shardlimit.Decision, error)) {
			heard = nil
			return func(d shardlimit.Decision, err error) {
				t.Helper()
				if d.Allowed || !errors.Is(err, wantErr) || len(heard) != 1 || heard[0] != want {
					t.Errorf("%+v, %v; heard of %q, want %q", d, err, heard, want)
				}
			}
		}
		refused("l/ of shop: 2 full", nil)(l.AllowN(ctx, 2))
		refused("users/ann of : 1 full", nil)(ann.Allow(ctx))
		refused("users/ann of : 9 full", nil)(ann.AllowUpTo(ctx, 9))
		refused("users/ann of : 1 full", nil)(set.Allow(ctx))
		refused("l/ of shop: 2 full", shardlimit.ErrWaitTooLong)(none, l.WaitN(soon, 2))
		refused("users/ann of : 1 full", shardlimit.ErrWaitTooLong)(none, set.Wait(soon))
		refused("leaky/ of shop: 1 full", shardlimit.ErrWaitTooLong)(none, turns.Wait(soon))
		refused("l/ of shop: 2 full", shardlimit.ErrWaitTooLong)(none, limittest.Err(l.Reserve(soon, 2)))
		refused("leaky/ of shop: 1 full", shardlimit.ErrWaitTooLong)(none, limittest.Err(leaky.Reserve(soon, 1)))

		heard = nil
		gone, leave := context.WithCancel(ctx)
		leave()
		limittest.ErrorIs(t, limittest.Err(l.Allow(gone)), context.Canceled)
		limittest.ErrorIs(t, limittest.Err(l.AllowN(ctx, 3)), shardlimit.ErrExceedsLimit)
		limittest.Passes(t, l)
		c.OnRefusal(nil)
		if limittest.Refuses(t, l); len(heard) > 0 {
			t.Errorf("heard of %q", heard)
		}
	})
}

// Who hears of a refusal may ask a limit, of the same key too. A panic there is the caller's, who
// finds the limit as it was.
func TestAHookIsCalledWithoutLocks(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		users := limittest.Family(t, c, "users", shardlimit.PerMinute(1))
		ann := users.Limiter("ann")
		limittest.MustGet(t, ann, 1)
		var heard []int64
		c.OnRefusal(func(ctx context.Context, r shardlimit.Refusal) {
			if heard = append(heard, r.Permits); len(heard) == 1 {
				_, _ = users.Limiter(r.Key).AllowUpTo(ctx, 2)
				panic("no room")
			}
		})
		func() {
			defer func() {
				if said := recover(); said != "no room" {
					t.Errorf("the caller sees %v", said)
				}
			}()
			_, _ = ann.Allow(t.Context())
		}()
		if !slices.Equal(heard, []int64{1, 2}) {
			t.Error(heard)
		}
		time.Sleep(time.Minute)
		limittest.MustGet(t, ann, 1)
		if n := limittest.Known(users); n > 1 {
			t.Errorf("%d keys are known", n)
		}
	})
}
