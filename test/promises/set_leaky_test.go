package promises

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// queued is a set of a leaky bucket with a turn every ten seconds, of which the
// first is taken, and of a limit that has room.
func queued(t *testing.T, f limittest.Fleet) (set *shardlimit.Set, leaky, roomy *shardlimit.Limiter) {
	t.Helper()
	c := f.Client(t)
	leaky = limittest.Limiter(t, c, "leaky", shardlimit.Limit{
		Permits: 6, Per: time.Minute, Algorithm: shardlimit.LeakyBucket, Burst: 6, Shards: 1,
	})
	roomy = limittest.Limiter(t, c, "roomy", shardlimit.PerMinute(100))
	set = limittest.Set(1, leaky, roomy)
	if err := set.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return set, leaky, roomy
}

func TestWaitOfASetSleepsUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, leaky, roomy := queued(t, limittest.Bubbled(t, 1))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- set.Wait(ctx) }()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("Wait returned %v before its turn, after %s", err, time.Since(begun))
		default:
		}
		if used := limittest.Peek(t, roomy).Used; used != 2 {
			t.Errorf("%d permits are used while it sleeps, want 2", used)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait ended with %v before its turn", err)
		}
		synctest.Wait() // what it had is given back behind the caller
		if used := limittest.Peek(t, roomy).Used; used != 1 {
			t.Errorf("%d permits are used after the caller left, want 1", used)
		}
		if d, err := leaky.Allow(t.Context()); err != nil || d.Delay > time.Second {
			t.Errorf("the turn was not given back: %+v, %v", d, err)
		}
	})
}

func TestWaitOfASetGivesBackATurnThatComesTooLate(t *testing.T) {
	set, _, roomy := queued(t, limittest.Standalone(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := set.Wait(ctx); !errors.Is(err, shardlimit.ErrWaitTooLong) {
		t.Errorf("Wait: %v", err)
	}
	if used := limittest.Peek(t, roomy).Used; used != 1 {
		t.Errorf("%d permits are used, want 1", used)
	}
}
