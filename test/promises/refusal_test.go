package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

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
		refused := func(what string, want string, call func() error) {
			t.Helper()
			heard = nil
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if len(heard) != 1 || heard[0] != want {
				t.Errorf("%s: heard of %q, want %q", what, heard, want)
			}
		}
		denied := func(d shardlimit.Decision, err error) error {
			if d.Allowed {
				return errors.New("it is allowed")
			}
			return err
		}
		is := func(err, want error) error {
			if !errors.Is(err, want) {
				return fmt.Errorf("%w, want %w", err, want)
			}
			return nil
		}
		set := shardlimit.All(l.N(1), ann.N(1))
		turns := shardlimit.All(l.N(1), leaky.N(1))
		refused("AllowN", "l/ of shop: 2 full", func() error { return denied(l.AllowN(ctx, 2)) })
		refused("Allow", "users/ann of : 1 full", func() error { return denied(ann.Allow(ctx)) })
		refused("AllowUpTo", "users/ann of : 9 full", func() error { return denied(ann.AllowUpTo(ctx, 9)) })
		refused("a Set", "users/ann of : 1 full", func() error { return denied(set.Allow(ctx)) })
		refused("WaitN", "l/ of shop: 2 full", func() error { return is(l.WaitN(soon, 2), shardlimit.ErrWaitTooLong) })
		refused("Wait of a Set", "users/ann of : 1 full",
			func() error { return is(set.Wait(soon), shardlimit.ErrWaitTooLong) })
		refused("a turn of a Set", "leaky/ of shop: 1 full",
			func() error { return is(turns.Wait(soon), shardlimit.ErrWaitTooLong) })
		refused("Reserve", "l/ of shop: 2 full", func() error {
			_, err := l.Reserve(soon, 2)
			return is(err, shardlimit.ErrWaitTooLong)
		})
		refused("a turn", "leaky/ of shop: 1 full", func() error {
			_, err := leaky.Reserve(soon, 1)
			return is(err, shardlimit.ErrWaitTooLong)
		})

		heard = nil
		gone, leave := context.WithCancel(ctx)
		leave()
		_, none := l.Allow(gone)
		_, many := l.AllowN(ctx, 3)
		if d, err := l.Allow(ctx); err != nil || !d.Allowed || none == nil || many == nil || len(heard) > 0 {
			t.Errorf("%+v, %v; %v; %v; heard of %q", d, err, none, many, heard)
		}
		c.OnRefusal(nil)
		if err := denied(l.Allow(ctx)); err != nil || len(heard) > 0 {
			t.Errorf("%v; heard of %q", err, heard)
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

// To hear of nothing costs nothing: a denial from memory allocates nothing, whoever listens.
func TestARefusalAllocatesNothing(t *testing.T) {
	l := limittest.InProcess(t, 1).Limiter(t, shardlimit.PerHour(1))
	limittest.MustGet(t, l, 1)
	limittest.Denied(t, l, 1)
	if n := testing.AllocsPerRun(100, func() { limittest.Denied(t, l, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
