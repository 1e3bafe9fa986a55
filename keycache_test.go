package shardlimit_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/shardlimit/shardlimit"
)

// A process remembers as many keys of a family as it is told to, and no more, however many it calls
// for. What a key used is not forgotten with it.
func TestAProcessRemembersAsManyKeysAsItIsTold(t *testing.T) {
	fl := standalone(t)
	c := fl.client(t, func(c *shardlimit.Config) { c.FamilyKeys = 1000 })
	users := keyed(t, c, "users", shardlimit.PerHour(2))
	call := func(from, to int) int64 {
		for i := from; i < to; i++ {
			if d, err := users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context()); err != nil || !d.Allowed {
				t.Fatalf("key %d: %+v, %v", i, d, err)
			}
		}
		return heap()
	}
	before := call(0, 5_000)
	if grown := call(5_000, 20_000) - before; grown > 1<<20 {
		t.Errorf("15,000 keys more hold %d bytes", grown)
	}
	call(0, 10) // forgotten long ago, with one permit used
	for i := range 10 {
		if d, err := users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context()); err != nil || d.Allowed {
			t.Errorf("key %d: %+v, %v", i, d, err)
		}
	}
	runtime.KeepAlive(users)
}

func TestFamilyKeysMustNotBeNegative(t *testing.T) {
	_, err := shardlimit.New(shardlimit.Config{Nodes: standalone(t).nodes, FamilyKeys: -1})
	if !errors.Is(err, shardlimit.ErrInvalidConfig) {
		t.Error(err)
	}
}
