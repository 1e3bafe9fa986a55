package shardlimit_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// A key that was called once takes a bounded number of bytes.
func TestAKeyThatWasCalledOnceIsSmall(t *testing.T) {
	const keys, most = 4_000, 1_800
	users := keyed(t, standalone(t).client(t), "users", shardlimit.PerHour(5))
	call := func(from int) int64 {
		for i := range keys {
			if d, err := users.Limiter(fmt.Sprint("user ", from+i)).Allow(t.Context()); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		return heap()
	}
	before := call(0)
	each := (call(keys) - before) / keys
	t.Logf("%d bytes for each key", each)
	if each > most {
		t.Errorf("a key takes %d bytes, at most %d are expected", each, most)
	}
	runtime.KeepAlive(users)
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
