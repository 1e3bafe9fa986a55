package promises

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// That nothing is free is believed until it may be otherwise, whichever Limiter calls. It is
// remembered ten seconds longer, for who asks for several limits; then nothing of the key is.
func TestADenialOfAKeyIsRememberedAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
		users := f.Family(t, shardlimit.PerHour(1))
		hasLeft(t, users.Limiter("ann"), 1)
		calls := net[0].Calls.Load()
		for range 100 {
			hasLeft(t, users.Limiter("ann"), 0)
		}
		if n := net[0].Calls.Load() - calls; n != 0 || limittest.Known(users) != 1 {
			t.Errorf("%d script calls for what is known, %d keys are remembered", n, limittest.Known(users))
		}
		time.Sleep(13 * time.Second)
		if n := limittest.Known(users); n != 0 {
			t.Errorf("%d keys are remembered when nothing is known of them", n)
		}
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
				if err := users.Limiter("ann").Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
		}
		time.Sleep(10 * time.Second)
		if n := limittest.Waiting(users.Limiter("ann")); n != 3 || limittest.Known(users) != 1 {
			t.Errorf("%d wait in the line of the key, %d keys are known", n, limittest.Known(users))
		}
		all.Wait()
		time.Sleep(13 * time.Second)
		if !slices.Equal(order, []int{0, 1, 2}) || limittest.Known(users) != 0 {
			t.Errorf("served in the order %v, %d keys are known then", order, limittest.Known(users))
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
				if _, errs := limittest.AtOnce(t.Context(), users, 100*i, 100); errors.Join(errs...) != nil {
					t.Fatal(errors.Join(errs...))
				}
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
		c := f.Client(t, func(c *shardlimit.Config) { c.OnOutage = shardlimit.FailLocal })
		users := limittest.Family(t, c, "users", shardlimit.PerMinute(5))
		limittest.MustGet(t, users.Limiter("ann"), 3)
		time.Sleep(30 * time.Second)
		f.Bubble[0].Down.Store(true)
		hasLeft(t, users.Limiter("ann"), 2)
		time.Sleep(2 * time.Minute)
		if n := limittest.Known(users); n != 0 {
			t.Errorf("%d keys are remembered after a window", n)
		}
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
	if _, err := ann.As("", 1).Allow(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
		t.Errorf("a tenant without a name: %v", err)
	}
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
		d, err := ann.AllowN(t.Context(), 10)
		limittest.Must(t, err)
		limittest.Must(t, ann.Settle(t.Context(), d, 300))
		time.Sleep(5 * time.Minute)
		hasLeft(t, ann, 0)
	})
}

// From so far that there is no time for two calls a key is answered all the same.
func TestAKeyIsAnsweredFromAfar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 1).Distant(t, 60*time.Millisecond)
		users := f.Family(t, shardlimit.PerMinute(10))
		ask := func(l *shardlimit.Limiter, n int64, allowed bool) {
			t.Helper()
			if d, err := l.AllowN(t.Context(), n); err != nil || d.Allowed != allowed {
				t.Errorf("%d permits: %+v, %v", n, d, err)
			}
		}
		ask(users.Limiter("ann"), 7, true)
		ask(users.Limiter("ann"), 9, false)
		ask(users.LimiterWith("bob", shardlimit.Limit{Permits: 100, Revision: 9}), 1, true)
		time.Sleep(3 * time.Second)
		ask(users.Limiter("bob"), 1, true)
	})
}
