package promises

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestKeysOfAFamilyHaveTheirOwnPermits(t *testing.T) {
	f, _ := limittest.Proxied(t, 3)
	users := limittest.Family(t, f.Client(t), "users", shardlimit.PerHour(3))
	spread := map[string]bool{}
	for i := range 20 {
		l := users.Limiter(fmt.Sprint("user ", i))
		if got := limittest.Grants(t, l); got != 3 {
			t.Errorf("key %d had %d permits, want 3", i, got)
		}
		spread[limittest.Peek(t, l).Shards[0].Node] = true
	}
	if len(spread) != 3 {
		t.Errorf("20 keys are on %d of 3 nodes", len(spread))
	}
}

func TestTheSameKeyOfTwoProcessesIsOneLimit(t *testing.T) {
	f := limittest.Standalone(t)
	a := limittest.Family(t, f.Client(t), "users", shardlimit.PerHour(10)).Limiter("ann")
	b := limittest.Family(t, f.Client(t), "users", shardlimit.PerHour(99)).Limiter("ann")
	if d, err := a.AllowN(t.Context(), 6); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := limittest.Grants(t, b); got != 4 {
		t.Errorf("the other process had %d of the 4 permits left", got)
	}
}

func TestKeysWhoseNamesCouldRunTogetherDoNot(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	limiters := []*shardlimit.Limiter{
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("b:c"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("c"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("c}"),
		limittest.Family(t, c, "a:b", shardlimit.PerHour(2)).Limiter("{c"),
		limittest.Family(t, c, "1:a", shardlimit.PerHour(2)).Limiter("b"),
		limittest.Family(t, c, "1", shardlimit.PerHour(2)).Limiter("a:b"),
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("b/c"),
		limittest.Family(t, c, "a/b", shardlimit.PerHour(2)).Limiter("c"),
		limittest.Family(t, c, "a", shardlimit.PerHour(2)).Limiter("\x00\xff"),
		limittest.Limiter(t, c, "a", shardlimit.PerHour(2)),
		limittest.Limiter(t, c, "a:b:c", shardlimit.PerHour(2)),
		limittest.Limiter(t, c, "1:a:b:c", shardlimit.PerHour(2)),
	}
	for i, l := range limiters {
		if got := limittest.Grants(t, l); got != 2 {
			t.Errorf("limiter %d (%s) had %d permits, want 2: it shares them with another", i, l.Name(), got)
		}
	}
}

func TestFamilyLimiterDoesNoIO(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	users := limittest.Family(t, fl.Client(t), "users", shardlimit.PerHour(5))
	posts[0].Proxy.Stall(true) // whoever asks would wait
	sent := posts[0].Takes.Load()
	for i := range 1000 {
		if l := users.Limiter(fmt.Sprint(i)); l.Limit().Permits != 5 {
			t.Fatalf("%v", l.Limit())
		}
	}
	if n := posts[0].Takes.Load() - sent; n != 0 {
		t.Errorf("%d script calls for limiters of keys", n)
	}
	posts[0].Proxy.Stall(false)
}

func TestKeysOutOfBoundsAreRefused(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	users := limittest.Family(t, fl.Client(t), "users", shardlimit.PerHour(5))
	posts[0].Proxy.Stall(true)
	defer posts[0].Proxy.Stall(false)
	for _, n := range []int{0, shardlimit.MaxName + 1, 1 << 20} {
		l := users.Limiter(strings.Repeat("k", n))
		if _, err := l.Allow(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Allow on a key of %d bytes: %v", n, err)
		}
		if err := l.Wait(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Wait on a key of %d bytes: %v", n, err)
		}
		if err := l.Reset(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Reset on a key of %d bytes: %v", n, err)
		}
		if _, err := l.Peek(t.Context()); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("Peek on a key of %d bytes: %v", n, err)
		}
	}
	before := limittest.HeapInUse()
	for i := range 64 {
		_ = users.Limiter(fmt.Sprint(i, strings.Repeat("k", 1<<20)))
	}
	if grown := limittest.HeapInUse() - before; grown > 16<<20 {
		t.Errorf("64 keys of a megabyte hold %d MiB", grown>>20)
	}
	runtime.KeepAlive(users)
}

func TestAFamilyOfMillionsOfKeysIsBoundedInMemory(t *testing.T) {
	users := limittest.Family(t, limittest.Standalone(t).Client(t), "users", shardlimit.PerHour(5))
	fill := func(from int) int64 {
		for i := range 70_000 { // more than are remembered
			users.Limiter(fmt.Sprint("user ", from+i))
		}
		return limittest.HeapInUse()
	}
	before := fill(0)
	if grown := fill(70_000) - before; grown > 8<<20 {
		t.Errorf("another 70,000 keys hold %d MiB more", grown>>20)
	}
	// A key that was forgotten goes on where it was.
	l := users.Limiter("user 1")
	if d, err := l.AllowN(t.Context(), 4); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	fill(200_000)
	if got := limittest.Grants(t, users.Limiter("user 1")); got != 1 {
		t.Errorf("a key that was forgotten had %d permits, want 1", got)
	}
	runtime.KeepAlive(users)
}

func TestAForgottenKeyGetsItsRefund(t *testing.T) {
	users := limittest.Family(t, limittest.Standalone(t).Client(t), "users", shardlimit.PerHour(5))
	d, err := users.Limiter("ann").AllowN(t.Context(), 4)
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	for i := range 66_000 {
		users.Limiter(fmt.Sprint("user ", i))
	}
	ann := users.Limiter("ann")
	for range 2 {
		if err := limittest.Once(ann.Settle(t.Context(), d, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := limittest.Grants(t, ann); got != 5 {
		t.Errorf("%d permits after the refund, want 5", got)
	}
	if err := users.Limiter("bob").Settle(t.Context(), d, 0); !errors.Is(err, shardlimit.ErrOtherLimiter) {
		t.Errorf("of another key: %v", err)
	}
}

func TestSetLimitOfAFamilyHoldsForEveryKey(t *testing.T) {
	f := limittest.Standalone(t)
	here := limittest.Family(t, f.Client(t), "users", shardlimit.PerHour(3))
	there := limittest.Family(t, f.Client(t), "users", shardlimit.PerHour(3))
	if got := limittest.Grants(t, here.Limiter("ann")); got != 3 {
		t.Fatalf("%d permits", got)
	}
	if got := limittest.Grants(t, there.Limiter("bob")); got != 3 {
		t.Fatalf("%d permits", got)
	}
	if err := here.SetLimit(t.Context(), shardlimit.PerHour(5)); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []shardlimit.Limit{{Permits: 5, Per: time.Hour, Shards: 2},
		{Permits: 5, Per: time.Hour, Lease: time.Second}} {
		_, declared := f.Client(t).Family(t.Context(), "others", limit)
		for _, err := range []error{declared, here.SetLimit(t.Context(), limit)} {
			if !errors.Is(err, shardlimit.ErrInvalidLimit) {
				t.Errorf("%v for each key: %v", limit, err)
			}
		}
	}
	if got := here.Limit(); got.Permits != 5 || got.Shards != 1 {
		t.Errorf("%v", got)
	}
	if got := limittest.Grants(t, here.Limiter("ann")); got != 2 {
		t.Errorf("a key in use had %d more permits, want 2", got)
	}
	if got := limittest.Grants(t, here.Limiter("new")); got != 5 {
		t.Errorf("a new key had %d permits, want 5", got)
	}
	if got := limittest.Grants(t, here.Limiter("bob")); got != 2 {
		t.Errorf("a key that another process used had %d more permits, want 2", got)
	}
	limittest.AwaitThat(t, "the other process learns of it from a key", func() bool {
		_, err := there.Limiter("bob").Allow(t.Context())
		return err == nil && there.Limit().Permits == 5
	})
}

func TestOneKeyCannotBeDeletedByItself(t *testing.T) {
	l := limittest.Family(t, limittest.Standalone(t).Client(t), "users", shardlimit.PerHour(3)).Limiter("ann")
	if err := l.Delete(t.Context()); !errors.Is(err, shardlimit.ErrFamilyLimit) {
		t.Errorf("Delete: %v", err)
	}
	limittest.Grants(t, l)
	if err := l.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	if got := limittest.Grants(t, l); got != 3 {
		t.Errorf("%d permits after Reset, want 3", got)
	}
}
