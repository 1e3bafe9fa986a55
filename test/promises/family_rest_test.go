package promises

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// errNothingGranted tells that a call was answered, and got nothing from Redis.
var errNothingGranted = errors.New("nothing was granted")

// granted is the error of a call that must be granted so many permits by Redis.
func granted(d shardlimit.Decision, n int64, err error) error {
	if err == nil && (d.Granted != n || d.Degraded) {
		return fmt.Errorf("%w: %+v", errNothingGranted, d)
	}
	return err
}

// restedCalls are first calls of a process that rested.
var restedCalls = map[string]func(context.Context, *shardlimit.Limiter) error{
	"Allow": func(ctx context.Context, l *shardlimit.Limiter) error {
		d, err := l.Allow(ctx)
		return granted(d, 1, err)
	},
	"AllowN": func(ctx context.Context, l *shardlimit.Limiter) error {
		d, err := l.AllowN(ctx, 3)
		return granted(d, 3, err)
	},
	"AllowUpTo": func(ctx context.Context, l *shardlimit.Limiter) error {
		d, err := l.AllowUpTo(ctx, 3)
		return granted(d, 3, err)
	},
	"a set": func(ctx context.Context, l *shardlimit.Limiter) error {
		d, err := limittest.Set(1, l).Allow(ctx)
		return granted(d, 1, err)
	},
	"Wait": func(ctx context.Context, l *shardlimit.Limiter) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return l.Wait(ctx)
	},
	"Reserve": func(ctx context.Context, l *shardlimit.Limiter) error {
		r, err := l.Reserve(ctx, 1)
		if err == nil && r.Delay() > 0 {
			return fmt.Errorf("%w: %s from now", errNothingGranted, r.Delay())
		}
		return err
	},
}

// The keys of a family moved to other nodes while a process rested. Its first call hears of that,
// and is served: what is free at the old shards is free.
func TestAProcessThatRestedIsServedWhereKeysAreNow(t *testing.T) {
	limits := []shardlimit.Limit{
		{Permits: 10, Per: time.Hour},
		{Permits: 10, Per: time.Hour, Algorithm: shardlimit.SlidingCounter},
		{Permits: 10, Per: time.Hour, Algorithm: shardlimit.FixedWindow},
	}
	for name, do := range restedCalls {
		for i, limit := range limits {
			if i > 0 && name != "Allow" {
				continue // what the others do differently is the way of the call, not the algorithm
			}
			t.Run(fmt.Sprint(name, " of ", limit.Algorithm), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { restAndCall(t, limit, do) })
			})
		}
	}
}

// restAndCall has keys move while each of the processes that use one of them rests.
func restAndCall(t *testing.T, limit shardlimit.Limit, do func(context.Context, *shardlimit.Limiter) error) {
	f := limittest.Bubbled(t, 4)
	rested := make([]*shardlimit.Limiter, 8)
	for i := range rested {
		rested[i] = limittest.Family(t, f.Client(t), "users", limit).Limiter(fmt.Sprint("user ", i))
		if d, err := rested[i].Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("key %d: %+v, %v", i, d, err)
		}
	}
	f.Nodes = limittest.Drained(f.Nodes, func(i int) bool { return i < 2 })
	users := limittest.Family(t, f.Client(t), "users", limit)
	if err := users.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	for i, l := range rested {
		if err := do(t.Context(), l); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
}

// Keys of a family moved and were used no more, so lately that another process has no reason to
// read the record. The old shard tells its call, which makes a step of the key's move then: the new
// shards have forgotten theirs.
func TestACallFollowsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 4)
		limit := shardlimit.Limit{Permits: 10, Per: 100 * time.Millisecond}
		behind := make([]*shardlimit.Limiter, 8)
		for i := range behind {
			behind[i] = limittest.Family(t, f.Client(t), "users", limit).Limiter(fmt.Sprint("user ", i))
			if d, err := behind[i].Allow(t.Context()); err != nil || !d.Allowed {
				t.Fatalf("key %d: %+v, %v", i, d, err)
			}
		}
		f.Nodes = limittest.Drained(f.Nodes, func(i int) bool { return i < 2 })
		users := limittest.Family(t, f.Client(t), "users", limit)
		if err := users.Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range behind {
			_, _ = users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context())
		}
		time.Sleep(2 * time.Second)
		for i, l := range behind {
			d, err := l.Allow(t.Context())
			if err := granted(d, 1, err); err != nil {
				t.Errorf("key %d: %v", i, err)
			}
		}
	})
}
