package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/script"
)

// Calls for different keys share script calls. None of them waits for another to come back before
// 16 script calls are under way, or they carry a hundred. Those that wait then go as many at once.
func TestCallsForManyKeysGoTogetherAndAtOnce(t *testing.T) {
	for keys, trips := range map[int]time.Duration{16: 2, 300: 4} {
		synctest.Test(t, func(t *testing.T) {
			const away, together = 20 * time.Millisecond, 300 / 4
			f, net := limittest.Bubbled(t, 1).Distant(t, away)
			users := f.Family(t, shardlimit.PerMinute(3), limittest.PatientFor(time.Second))
			for round := range 3 {
				calls, began := net[0].Calls.Load(), time.Now()
				granted, errs := limittest.AtOnce(t.Context(), users, 0, keys)
				took := time.Since(began)
				for i := range keys {
					if errs[i] != nil || granted[i] != 1 {
						t.Fatalf("key %d: %d granted, %v", i, granted[i], errs[i])
					}
				}
				if n := net[0].Calls.Load() - calls; n > together {
					t.Errorf("round %d: %d script calls for %d keys", round, n, keys)
				}
				// The first loads the scripts, and another one that is new to the node takes a
				// trip.
				if round > 0 && took > trips*away {
					t.Errorf("round %d of %d keys took %s, %s away", round, keys, took, away)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A key whose state is somebody else's, or damaged, harms no other key of its call.
func TestADamagedKeyHarmsNoOtherOfItsCall(t *testing.T) {
	t.Parallel()
	f, posts := limittest.Proxied(t, 1)
	users := f.Family(t, shardlimit.PerMinute(3))
	const keys, bad = 100, 17
	ref := refOf(t, f, users, fmt.Sprint("user ", bad))
	posts[0].Do(t, "SET", ref.Head(), "somebody else's")
	for range 3 {
		granted, errs := limittest.AtOnce(t.Context(), users, 0, keys)
		for i := range keys {
			switch {
			case i == bad && !errors.Is(errs[i], shardlimit.ErrUnavailable):
				t.Errorf("the damaged key: %v", errs[i])
			case i != bad && (errs[i] != nil || granted[i] != 1):
				t.Errorf("key %d: %d granted, %v", i, granted[i], errs[i])
			}
		}
	}
	if got := posts[0].Do(t, "GET", ref.Head()); got != "somebody else's" {
		t.Errorf("it was overwritten: %q", got)
	}
}

// A caller that leaves while its key is asked for takes nothing.
func TestWhoLeavesAKeyTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 20 * time.Millisecond
		f, _ := limittest.Bubbled(t, 1).Distant(t, away)
		users := f.Family(t, shardlimit.PerMinute(3))
		limittest.AtOnce(t.Context(), users, 0, 100) // the process knows all places of keys
		for range 3 {
			_, err := users.Limiter("ann").Allow(limittest.Shortly(t, away/2))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			time.Sleep(10 * away)
		}
		hasLeft(t, users.Limiter("ann"), 3)
	})
}

// Of a key that is as it mostly is nothing is remembered. One whose state is other than its callers
// propose is asked for that in one script call, once the process has seen it so.
func TestAKeyWhoseStateIsRareIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
		users := f.Family(t, shardlimit.PerMinute(5))
		limittest.AtOnce(t.Context(), users, 0, 100) // the process knows all places of keys
		for _, key := range []string{"loads the scripts", "ann"} {
			limittest.MustGet(t, users.LimiterWith(key, shardlimit.Limit{Permits: 9, Revision: 1}), 1)
			time.Sleep(3 * time.Second)
			if n := limittest.Known(users); n != 0 {
				t.Errorf("%d keys are known before", n)
			}
			limittest.MustGet(t, users.Limiter(key), 1)
		}
		calls := net[0].Calls.Load()
		limittest.MustGet(t, users.Limiter("ann"), 1)
		if n := net[0].Calls.Load() - calls; n != 1 {
			t.Errorf("%d script calls", n)
		}
		time.Sleep(3 * time.Second)
		limittest.MustGet(t, users.Limiter("bob"), 1)
		if n := limittest.Known(users); n != 0 {
			t.Errorf("%d keys are known", n)
		}
	})
}

// refOf names the Redis keys of a key with one shard.
func refOf(t *testing.T, f limittest.Fleet, users *shardlimit.Family, key string) script.ShardRef {
	t.Helper()
	st := limittest.Peek(t, users.Limiter(key))
	return script.ShardKeys(f.Prefix, st.Shards[0].Tag, fmt.Sprintf("k%d:%s:%s", len(users.Name()), users.Name(), key))
}

// On a cluster the keys of a family lie in few slots. While one of these is on its way to another
// server calls for keys in it may fail. No key is over, and all are served again afterwards.
func TestKeysAreNotOverWhileTheirSlotMoves(t *testing.T) {
	f, cluster := limittest.Clustered(t, 0)
	limit := shardlimit.Limit{Permits: 4, Per: 500 * time.Millisecond}
	one, other := f.Family(t, limit), f.Family(t, limit)
	callers, slots := make([]*limittest.Traffic, 12), map[int]shardlimit.State{} // several keys lie in one
	for i := range callers {
		key := fmt.Sprint("user ", i)
		st := limittest.Peek(t, one.Limiter(key))
		slots[st.Shards[0].Slot] = st
		callers[i] = limittest.NewTraffic(t)
		callers[i].Start(1, one.Limiter(key), other.Limiter(key))
	}
	used := func(when string) {
		limittest.AwaitThat(t, "all keys are used "+when, func() bool {
			few := func(c *limittest.Traffic) bool { return c.Admitted.Load() < 2*limit.Permits }
			return !slices.ContainsFunc(callers, few)
		})
		for _, c := range callers {
			c.Admitted.Store(0)
		}
	}
	used("before")
	var migrations []*redistest.Migration
	for _, st := range slots {
		migrations = append(migrations, limittest.BeginMigrations(cluster, st)...)
	}
	time.Sleep(300 * time.Millisecond)
	for _, m := range migrations {
		m.MoveKeys()
	}
	time.Sleep(300 * time.Millisecond)
	for _, m := range migrations {
		m.Finish()
	}
	used("once they have moved")
	for _, c := range callers {
		ops, _ := c.Stop() // calls may fail meanwhile
		limittest.KeepsTo(t, limit, ops)
	}
}
