package shardlimit_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// A key that was called once, and one that was called for by another participant, take a bounded
// number of bytes.
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

// However many participants call for however many keys, a bounded number of them is remembered.
func TestParticipantsOfAFamilyAreBoundedInMemory(t *testing.T) {
	users := keyed(t, standalone(t).client(t), "users", shardlimit.PerHour(5))
	tenants := func(from int) int64 {
		for key := range 100 {
			l := users.Limiter(fmt.Sprint("user ", key))
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
	users.Limiter("user 1").As("tenant 1", 1)
	for i := range 70_000 { // with the keys their participants are forgotten
		users.Limiter(fmt.Sprint("another ", i))
	}
	if kept := users.Limiter("user 1").As("tenant 1", 1); kept == nil {
		t.Error("no limiter")
	}
	runtime.KeepAlive(users)
}
