package promises

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Calls for different keys share script calls. None of them waits for another to come back before
// 16 script calls are under way, or they carry a hundred. Those that wait then go as many at once.
// A key whose state is somebody else's harms no other of its call.
func TestCallsForManyKeysGoTogetherAndAtOnce(t *testing.T) {
	for keys, trips := range map[int]time.Duration{16: 2, 300: 4} {
		synctest.Test(t, func(t *testing.T) {
			const away, together = 20 * time.Millisecond, 300 / 4
			f, net := limittest.Bubbled(t, 1).Distant(t, away)
			users := f.Family(t, shardlimit.PerMinute(3), limittest.PatientFor(time.Second))
			for round := range 3 {
				for _, key := range f.Bubble[0].Redis.Keys() {
					if round == 2 && strings.HasSuffix(key, ":user 7") {
						f.Bubble[0].Redis.Do([]string{"SET", key, "somebody else's"})
					}
				}
				atMost, began := sends(&net[0].Calls), time.Now()
				granted, errs := limittest.AtOnce(t.Context(), users, 0, keys)
				took := time.Since(began)
				for i := range keys {
					if bad := round == 2 && i == 7; bad != errors.Is(errs[i], shardlimit.ErrUnavailable) ||
						!bad && (errs[i] != nil || granted[i] != 1) {
						t.Fatalf("key %d: %d granted, %v", i, granted[i], errs[i])
					}
				}
				atMost(t, together, "round", round)
				// The first loads the scripts, and another one that is new to the node takes a
				// trip.
				if round == 1 && took > trips*away {
					t.Errorf("round %d of %d keys took %s, %s away", round, keys, took, away)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A caller that leaves while its key is asked for takes nothing.
func TestWhoLeavesAKeyTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 8 * time.Millisecond // so near that a key is asked for alone
		f, _ := limittest.Bubbled(t, 1).Distant(t, away)
		users := f.Family(t, shardlimit.PerMinute(3))
		limittest.AtOnce(t.Context(), users, 0, 100) // the process knows all places of keys
		for range 3 {
			_, err := users.Limiter("ann").Allow(limittest.Shortly(t, away/2))
			limittest.ErrorIs(t, err, context.DeadlineExceeded)
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
			knows(t, users, 0)
			limittest.MustGet(t, users.Limiter(key), 1)
		}
		atMost := sends(&net[0].Calls)
		limittest.MustGet(t, users.Limiter("ann"), 1)
		atMost(t, 1)
		time.Sleep(3 * time.Second)
		limittest.MustGet(t, users.Limiter("bob"), 1)
		knows(t, users, 0)
	})
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
	for _, step := range []func(*redistest.Migration){(*redistest.Migration).MoveKeys, (*redistest.Migration).Finish} {
		time.Sleep(300 * time.Millisecond)
		for _, m := range migrations {
			step(m)
		}
	}
	used("once they have moved")
	for _, c := range callers {
		ops, _ := c.Stop() // calls may fail meanwhile
		limittest.KeepsTo(t, limit, ops)
	}
}

// That nothing is free is believed until it may be otherwise, whichever Limiter calls. It is
// remembered ten seconds longer, for who asks for several limits; then nothing of the key is.
func TestADenialOfAKeyIsRememberedAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
		users := f.Family(t, shardlimit.PerHour(1))
		hasLeft(t, users.Limiter("ann"), 1)
		atMost := sends(&net[0].Calls)
		for range 100 {
			hasLeft(t, users.Limiter("ann"), 0)
		}
		atMost(t, 0)
		knows(t, users, 1)
		time.Sleep(13 * time.Second)
		knows(t, users, 0)
	})
}

// All callers who wait for a key are in one line, whichever Limiter they called.
func TestAKeyThatIsWaitedForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := limittest.Bubbled(t, 1).Family(t, shardlimit.PerMinute(1))
		hasLeft(t, users.Limiter("ann"), 1)
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				err := users.Limiter("ann").Wait(t.Context())
				mu.Lock()
				defer mu.Unlock()
				limittest.ErrorIs(t, err, nil)
				order = append(order, i)
			})
		}
		time.Sleep(10 * time.Second)
		if n := limittest.Waiting(users.Limiter("ann")); n != 3 {
			t.Errorf("%d wait in the line of the key", n)
		}
		knows(t, users, 1)
		all.Wait()
		time.Sleep(13 * time.Second)
		knows(t, users, 0)
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("served in the order %v", order)
		}
	})
}

// Of more keys than may be remembered some are forgotten, and their next call asks Redis.
func TestOnlySoManyKeysAreRemembered(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		limittest.RememberKeys(c, 100)
		users := limittest.Family(t, c, "users", shardlimit.PerHour(1))
		most := 0
		for i := range 20 {
			for range 2 {
				_, errs := limittest.AtOnce(t.Context(), users, 100*i, 100)
				limittest.Must(t, errors.Join(errs...))
			}
			most = max(most, limittest.Known(users))
		}
		if most < 100 || most > 600 {
			t.Errorf("%d keys are remembered", most)
		}
	})
}

// What a process was granted counts in an outage under FailLocal, for a window.
func TestWhatAKeyWasGrantedIsRememberedForAnOutage(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		users := f.Family(t, shardlimit.PerMinute(5), limittest.OnOutage(shardlimit.FailLocal))
		limittest.MustGet(t, users.Limiter("ann"), 3)
		time.Sleep(30 * time.Second)
		f.Bubble[0].Down.Store(true)
		hasLeft(t, users.Limiter("ann"), 2)
		time.Sleep(2 * time.Minute)
		knows(t, users, 0)
	})
}

// However many participants call for a limit, a bounded number of them is remembered.
func TestParticipantsOfALimitAreBoundedInMemory(t *testing.T) {
	l := limittest.InProcess(t, 1).Limiter(t, shardlimit.PerHour(5))
	tenants := func(from int) int64 {
		for tenant := range 40_000 {
			l.As(fmt.Sprint("tenant ", from+tenant), 1)
		}
		return limittest.HeapInUse()
	}
	before := tenants(0) // more than are remembered
	for round := 1; round <= 2; round++ {
		if grown := tenants(round*40_000) - before; grown > 4<<20 {
			t.Errorf("another 40,000 participants hold %d MiB more", grown>>20)
		}
	}
	runtime.KeepAlive(l)
}

// Keys know no participants.
func TestAParticipantOfAKeyIsTheKey(t *testing.T) {
	users := limittest.InProcess(t, 1).Family(t, shardlimit.PerHour(5))
	ann := users.Limiter("ann")
	if ann.As("tenant", 3) != ann {
		t.Error("another limiter")
	}
	limittest.ErrorIs(t, limittest.Err(ann.As("", 1).Allow(t.Context())), shardlimit.ErrInvalidName)
	hasLeft(t, ann.As("tenant", 3), 5)
	limittest.Denied(t, ann, 1)
	if list, err := ann.Participants(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v contend for a key (%v)", list, err)
	}
}

// A process remembers what it decided by itself for a key as long as for a limit: debts of a bucket
// until they are paid.
func TestWhatAKeyCountsByItselfIsNotForgotten(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		ann := f.Family(t, shardlimit.Limit{Permits: 10, Per: time.Minute,
			Scope: shardlimit.PerParticipant, Algorithm: shardlimit.TokenBucket}).Limiter("ann")
		limittest.Must(t, ann.Settle(t.Context(), limittest.MustGet(t, ann, 10), 300))
		time.Sleep(5 * time.Minute)
		hasLeft(t, ann, 0)
	})
}
