package shardlimit_test

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
)

// Nothing is kept of a key whose calls are over.
func TestNothingIsKeptOfAKeyThatWasCalledOnce(t *testing.T) {
	const keys, most = 4_000, 300
	users := keyed(t, standalone(t).client(t, patientFor(patience)), "users", shardlimit.PerHour(5))
	call := func(from int) int64 {
		for i := range keys / 100 {
			if granted, errs := atOnce(t.Context(), users, from+100*i, 100); slices.Contains(granted, 0) {
				t.Fatal(granted, errors.Join(errs...))
			}
		}
		return heap()
	}
	before := call(0)
	grown := call(keys) - before
	if n := users.Known(); n != 0 || grown > keys*most {
		t.Errorf("something of %d keys is kept, and the heap grew by %d bytes", n, grown)
	}
	runtime.KeepAlive(users)
}

// That nothing is free is remembered until it may be otherwise, whichever Limiter calls, and then
// nothing of the key is.
func TestADenialOfAKeyIsRememberedAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := bubbled(t, 1).distant(t, time.Millisecond)
		users := keyed(t, f.client(t), "users", shardlimit.PerHour(1))
		hasLeft(t, users.Limiter("ann"), 1)
		calls := net[0].calls.Load()
		for range 100 {
			hasLeft(t, users.Limiter("ann"), 0)
		}
		if n := net[0].calls.Load() - calls; n != 0 || users.Known() != 1 {
			t.Errorf("%d script calls for what is known, %d keys are remembered", n, users.Known())
		}
		time.Sleep(3 * time.Second)
		if n := users.Known(); n != 0 {
			t.Errorf("%d keys are remembered when nothing is known of them", n)
		}
	})
}

// Who waits for a key is in one line with all others who do, whichever Limiter they called.
func TestAKeyThatIsWaitedForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := keyed(t, bubbled(t, 1).client(t), "users", shardlimit.PerMinute(1))
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
		if n := users.Limiter("ann").Waiting(); n != 3 || users.Known() != 1 {
			t.Errorf("%d wait in the line of the key, %d keys are known", n, users.Known())
		}
		all.Wait()
		time.Sleep(3 * time.Second)
		if !slices.Equal(order, []int{0, 1, 2}) || users.Known() != 0 {
			t.Errorf("served in the order %v, %d keys are known then", order, users.Known())
		}
	})
}

// Of more keys than may be remembered some are forgotten, and their next call asks Redis.
func TestOnlySoManyKeysAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubbled(t, 1).client(t)
		c.RememberKeys(100)
		users := keyed(t, c, "users", shardlimit.PerHour(1))
		most := 0
		for i := range 20 {
			for range 2 {
				if _, errs := atOnce(t.Context(), users, 100*i, 100); errors.Join(errs...) != nil {
					t.Fatal(errors.Join(errs...))
				}
			}
			most = max(most, users.Known())
		}
		if most < 100 || most > 600 {
			t.Errorf("%d keys are remembered", most)
		}
	})
}

// What a process was granted counts in an outage under FailLocal, for a window.
func TestWhatAKeyWasGrantedIsRememberedForAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := bubbledNodes(t, 1)
		c := f.client(t, func(c *shardlimit.Config) { c.OnOutage = shardlimit.FailLocal })
		users := keyed(t, c, "users", shardlimit.PerMinute(5))
		granted, err := users.Limiter("ann").AllowN(t.Context(), 3)
		if err != nil || !granted.Allowed {
			t.Fatalf("%+v, %v", granted, err)
		}
		time.Sleep(30 * time.Second)
		nodes[0].down.Store(true)
		hasLeft(t, users.Limiter("ann"), 2)
		time.Sleep(2 * time.Minute)
		if n := users.Known(); n != 0 {
			t.Errorf("%d keys are remembered after a window", n)
		}
	})
}

// However many participants call for however many limits, a bounded number of them is remembered.
func TestParticipantsOfALimitAreBoundedInMemory(t *testing.T) {
	c := inProcess(t, 1).client(t)
	var limiters []*shardlimit.Limiter
	for i := range 100 {
		limiters = append(limiters, limiter(t, c, fmt.Sprint("l", i), shardlimit.PerHour(5)))
	}
	tenants := func(from int) int64 {
		for _, l := range limiters {
			for tenant := range 400 {
				l.As(fmt.Sprint("tenant ", from+tenant), 1)
			}
		}
		return heap()
	}
	before := tenants(0) // more than are remembered
	for round := 1; round <= 2; round++ {
		if grown := tenants(round*400) - before; grown > 4<<20 {
			t.Errorf("another 40,000 participants hold %d MiB more", grown>>20)
		}
	}
	runtime.KeepAlive(limiters)
}

// Keys know no participants.
func TestAParticipantOfAKeyIsTheKey(t *testing.T) {
	users := keyed(t, inProcess(t, 1).client(t), "users", shardlimit.PerHour(5))
	ann := users.Limiter("ann")
	if ann.As("tenant", 3) != ann {
		t.Error("another limiter")
	}
	if _, err := ann.As("", 1).Allow(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
		t.Errorf("a tenant without a name: %v", err)
	}
	hasLeft(t, ann.As("tenant", 3), 5)
	if d, err := ann.Allow(t.Context()); err != nil || d.Allowed {
		t.Errorf("%+v (%v)", d, err)
	}
	if list, err := ann.Participants(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v contend for a key (%v)", list, err)
	}
}
