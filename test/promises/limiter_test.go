package promises

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Packages that do not know each other bound the same numbers. Where one allowed more than another,
// a limit could be declared that no shard takes.
func TestBoundsAreTheSameEverywhere(t *testing.T) {
	for name, bounds := range map[string][]int64{
		"permits":      {shardlimit.MaxPermits, script.MaxPermits, shard.MaxPermits, 1e12},
		"epoch":        {script.MaxEpoch, shard.MaxEpoch, 1<<53 - 1},
		"least window": {int64(shardlimit.MinWindow), int64(script.MinWindow), int64(shard.MinWindow), 1e6},
		"longest window": {int64(shardlimit.MaxWindow), int64(script.MaxWindow), int64(shard.MaxWindow),
			31 * 24 * 3600e9},
		"shards": {shardlimit.MaxShards, shard.MaxLive, 256},
	} {
		for _, b := range bounds {
			if b != bounds[0] {
				t.Errorf("%s: %d", name, bounds)
			}
		}
	}
}

func TestAllowSpendsTheLimitAndThenDenies(t *testing.T) {
	for _, shards := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			ctx := t.Context()
			l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
				shardlimit.Limit{Permits: 20, Per: time.Minute, Shards: shards})
			for i := range 20 {
				d, err := l.Allow(ctx)
				if err != nil || !d.Allowed || d.Granted != 1 || d.Limit != 20 || d.Degraded {
					t.Fatalf("call %d: %+v, %v", i, d, err)
				}
				if d.RetryAfter != 0 || d.ResetAfter <= 0 || d.ResetAfter > time.Minute {
					t.Fatalf("call %d: RetryAfter %s, ResetAfter %s", i, d.RetryAfter, d.ResetAfter)
				}
			}
			d, err := l.Allow(ctx)
			if err != nil || d.Allowed || d.Granted != 0 || d.Remaining != 0 {
				t.Fatalf("after the limit: %+v, %v", d, err)
			}
			if d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
				t.Errorf("RetryAfter %s", d.RetryAfter)
			}
		})
	}
}

func TestAllowNGrantsTheWholeIdleLimit(t *testing.T) {
	f := limittest.Standalone(t)
	c := f.Client(t)
	for shards := 1; shards <= 16; shards++ {
		l := limittest.Limiter(t, c, fmt.Sprint("whole-", shards),
			shardlimit.Limit{Permits: 1000, Per: time.Minute, Shards: shards})
		if got := l.Limit().Shards; got != shards {
			t.Fatalf("%d shards asked for, %d made", shards, got)
		}
		d, err := l.AllowN(t.Context(), 1000)
		if err != nil || !d.Allowed || d.Granted != 1000 {
			t.Fatalf("%d shards: %+v, %v", shards, d, err)
		}
		if d, _ := l.Allow(t.Context()); d.Allowed {
			t.Fatalf("%d shards: one more was allowed", shards)
		}
		if err := l.Settle(t.Context(), d, 0); err != nil {
			t.Fatal(err)
		}
		if d, err := l.AllowN(t.Context(), 1000); err != nil || !d.Allowed {
			t.Fatalf("%d shards: after the refund: %+v, %v", shards, d, err)
		}
	}
}

func TestErrorsComeBeforeIO(t *testing.T) {
	c, err := shardlimit.New(shardlimit.Config{Nodes: []shardlimit.Node{{Name: "nowhere",
		Client: limittest.RefuseAll{TB: t}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for name, limit := range map[string]shardlimit.Limit{
		"no permits":   {Per: time.Second},
		"negative":     {Permits: -1, Per: time.Second},
		"too many":     {Permits: shardlimit.MaxPermits + 1, Per: time.Second},
		"no window":    {Permits: 1},
		"short window": {Permits: 1, Per: time.Microsecond},
		"long window":  {Permits: 1, Per: 32 * 24 * time.Hour},
		"nanoseconds":  {Permits: 1, Per: time.Second + 1},
		"shards":       {Permits: 1, Per: time.Second, Shards: -1},
		"many shards":  {Permits: 1, Per: time.Second, Shards: 257},
		"algorithm":    {Permits: 1, Per: time.Second, Algorithm: 99},
		"revision":     {Permits: 1, Per: time.Second, Revision: -1},
		"mode":         {Permits: 1, Per: time.Second, Mode: 99},
	} {
		if _, err := c.Limiter(ctx, "x", limit); !errors.Is(err, shardlimit.ErrInvalidLimit) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Family(ctx, "x", limit); !errors.Is(err, shardlimit.ErrInvalidLimit) {
			t.Errorf("family, %s: %v", name, err)
		}
	}
	if _, err := c.Limiter(ctx, "x", shardlimit.PerSecond(0)); err == nil || !strings.Contains(err.Error(),
		"Mode Closed lets nothing through, Off everything") {
		t.Errorf("no permits: %v", err)
	}
	for _, name := range []string{"", string(make([]byte, 1<<20))} {
		if _, err := c.Limiter(ctx, name, shardlimit.PerSecond(1)); !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("name of %d bytes: %v", len(name), err)
		}
	}
}

// A process that only asks for more than it knows to be there hears of a limit that was raised.
func TestWhoAsksForTooMuchHearsOfARaise(t *testing.T) {
	low, high := shardlimit.PerMinute(5), shardlimit.PerMinute(100)
	for name, open := range map[string]func(*testing.T, *shardlimit.Client) (*shardlimit.Limiter, func() error){
		"limiter": func(t *testing.T, c *shardlimit.Client) (*shardlimit.Limiter, func() error) {
			l := limittest.Limiter(t, c, "l", low)
			return l, func() error { return l.SetLimit(t.Context(), high) }
		},
		"family": func(t *testing.T, c *shardlimit.Client) (*shardlimit.Limiter, func() error) {
			f := limittest.Family(t, c, "f", low)
			return f.Limiter("k"), func() error { return f.SetLimit(t.Context(), high) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl := limittest.Bubbled(t, 1)
				_, raise := open(t, fl.Client(t))
				other, _ := open(t, fl.Client(t))
				if d, err := other.AllowN(t.Context(), 2); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				if err := raise(); err != nil {
					t.Fatal(err)
				}
				for second := range 20 {
					time.Sleep(time.Second)
					d, err := other.AllowN(t.Context(), 50)
					switch {
					case err == nil && d.Allowed:
						return
					case !errors.Is(err, shardlimit.ErrExceedsLimit):
						t.Fatalf("after %d s: %+v, %v", second+1, d, err)
					}
				}
				t.Error("after 20 s it has not heard")
			})
		})
	}
}
