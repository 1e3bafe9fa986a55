package promises

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
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
		if slices.Min(bounds) != slices.Max(bounds) {
			t.Errorf("%s: %d", name, bounds)
		}
	}
}

func TestErrorsComeBeforeIO(t *testing.T) {
	c, err := shardlimit.New(shardlimit.Config{Nodes: []shardlimit.Node{{Name: "nowhere",
		Client: limittest.RefuseAll{TB: t}}}})
	limittest.Must(t, err)
	defer c.Close()
	ctx := t.Context()
	for name, limit := range map[string]shardlimit.Limit{
		"no permits":   {Per: time.Second},
		"too many":     {Permits: shardlimit.MaxPermits + 1, Per: time.Second},
		"short window": {Permits: 1, Per: time.Microsecond},
		"long window":  {Permits: 1, Per: 32 * 24 * time.Hour},
		"nanoseconds":  {Permits: 1, Per: time.Second + 1},
		"shards":       {Permits: 1, Per: time.Second, Shards: -1},
		"many shards":  {Permits: 1, Per: time.Second, Shards: 257},
		"algorithm":    {Permits: 1, Per: time.Second, Algorithm: 99},
		"revision":     {Permits: 1, Per: time.Second, Revision: -1},
		"mode":         {Permits: 1, Per: time.Second, Mode: 99},
		"scope":        {Permits: 1, Per: time.Second, Scope: 2},

		"burst of a log": {Permits: 1, Per: time.Second, Burst: 1},
		"negative burst": {Permits: 1, Per: time.Second, Algorithm: shardlimit.TokenBucket, Burst: -1},
		"huge burst": {Permits: 1, Per: time.Second, Algorithm: shardlimit.TokenBucket,
			Burst: shardlimit.MaxPermits + 1},
		"endless to fill":  {Permits: 1, Per: shardlimit.MaxWindow, Algorithm: shardlimit.LeakyBucket, Burst: 10},
		"lease of buckets": {Permits: 9, Per: time.Second, Algorithm: shardlimit.TokenBucket, Lease: time.Second},
		"lease of each":    {Permits: 1, Per: time.Second, Scope: shardlimit.PerParticipant, Lease: time.Millisecond},
	} {
		limittest.ErrorIs(t, limittest.Err(c.Limiter(ctx, "x", limit)), shardlimit.ErrInvalidLimit, name)
		limittest.ErrorIs(t, limittest.Err(c.Family(ctx, "x", limit)), shardlimit.ErrInvalidLimit, "family", name)
	}
	err = limittest.Err(c.Limiter(ctx, "x", shardlimit.PerSecond(0)))
	if err == nil || !strings.Contains(err.Error(), "Mode Closed lets nothing through, Off everything") {
		t.Errorf("no permits: %v", err)
	}
	for _, name := range []string{"", string(make([]byte, 1<<20))} {
		limittest.ErrorIs(t, limittest.Err(c.Limiter(ctx, name, shardlimit.PerSecond(1))), shardlimit.ErrInvalidName)
	}
}

// A process that only asks for more than it knows to be there hears of a limit that was raised.
func TestWhoAsksForTooMuchHearsOfARaise(t *testing.T) {
	low, high := shardlimit.PerMinute(5), shardlimit.PerMinute(100)
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l, family := f.Limiter(t, low), f.Family(t, low)
		other, key := f.Limiter(t, low), f.Family(t, low).Limiter("k")
		limittest.MustGet(t, other, 2)
		limittest.MustGet(t, key, 2)
		limittest.Must(t, l.SetLimit(t.Context(), high))
		limittest.Must(t, family.SetLimit(t.Context(), high))
		for _, who := range []*shardlimit.Limiter{other, key} {
			for second := 0; ; second++ {
				time.Sleep(time.Second)
				d, err := who.AllowN(t.Context(), 50)
				if err == nil && d.Allowed {
					break
				}
				if !errors.Is(err, shardlimit.ErrExceedsLimit) || second == 20 {
					t.Fatalf("after %d s: %+v, %v", second+1, d, err)
				}
			}
		}
	})
}

// A bucket that leaves to another algorithm keeps back what it let through: that is in use. A
// process that never knew it as anything but leaving can look at it, too.
func TestPeekTellsWhatALeavingBucketKeepsBack(t *testing.T) {
	for _, a := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.LeakyBucket} {
		limittest.RunInBubble(t, a.String(), 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: a, Shards: 1}
			l := f.Limiter(t, limit)
			limittest.MustGet(t, l, 8)
			limit.Algorithm = shardlimit.SlidingLog
			limittest.Must(t, l.SetLimit(t.Context(), limit))
			for _, who := range []*shardlimit.Limiter{l, f.Limiter(t, limit)} {
				st := limittest.Peek(t, who)
				old := st.Shards[len(st.Shards)-1]
				if len(st.Shards) != 2 || old.Share < 8 || old.Used != old.Share ||
					st.Used+st.Remaining != limit.Permits {
					t.Errorf("%d used, %d free: %+v", st.Used, st.Remaining, st.Shards)
				}
			}
		})
	}
}

// TestEveryCallWorksInEveryState: also on a limit that was never used, or that lost its keys.
func TestEveryCallWorksInEveryState(t *testing.T) {
	f, admin := limittest.Standalone(t), redistest.Shared(t).Client(t)
	l := f.Limiter(t, shardlimit.PerMinute(50))
	var granted shardlimit.Decision
	calls := map[string]func(context.Context) error{
		"Settle":    func(ctx context.Context) error { return limittest.Once(l.Settle(ctx, granted, 0)) },
		"Peek":      func(ctx context.Context) error { return limittest.Err(l.Peek(ctx)) },
		"Reset":     l.Reset,
		"AllowN":    func(ctx context.Context) (err error) { granted, err = l.AllowN(ctx, 2); return err },
		"AllowUpTo": func(ctx context.Context) error { return limittest.Err(l.AllowUpTo(ctx, 5)) },
		"SetLimit":  func(ctx context.Context) error { return l.SetLimit(ctx, shardlimit.PerMinute(60)) },
		"Open":      func(ctx context.Context) error { return limittest.Err(f.Client(t).Open(ctx, "l")) },
	}
	for _, state := range []string{"unused", "used", "without a key"} {
		lost := 0
		for name, call := range calls {
			for _, key := range limittest.KeysUnder(t, admin, f.Prefix) {
				if state == "without a key" && strings.Contains(key, "}l:") {
					lost++
					limittest.Must(t, admin.Do(t.Context(), admin.B().Del().Key(key).Build()).Error())
				}
			}
			limittest.ErrorIs(t, call(t.Context()), nil, state, name)
		}
		if state == "without a key" && lost == 0 {
			t.Error("there was no key to lose")
		}
	}
}

// A call whose context has ended returns the cause, and no outage: no node was asked.
func TestAnEndedContextIsNoOutage(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, fl limittest.Fleet) {
		client := fl.Client(t)
		f := limittest.Family(t, client, "f", shardlimit.PerSecond(10))
		calls := limittest.Calls(limittest.Limiter(t, client, "l", shardlimit.PerSecond(10)), 3, shardlimit.Decision{})
		delete(calls, "Settle") // goes on
		calls["Open"] = func(ctx context.Context) error { _, err := client.Open(ctx, "l"); return err }
		calls["Family.SetLimit"] = func(ctx context.Context) error { return f.SetLimit(ctx, shardlimit.PerSecond(20)) }
		calls["Family.Rebalance"] = f.Rebalance
		cause := errors.New("the user has left")
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		atMost := sends(&fl.Bubble[0].Calls)
		for name, call := range calls {
			if err := call(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) ||
				errors.Is(err, shardlimit.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		atMost(t, 0)
	})
}

// Callers that come back as soon as they are answered share their next script call.
func TestCallersThatComeBackShareACall(t *testing.T) {
	defer chance.Seed(1)() // a yield lasts until all have called
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 1_000_000, Per: time.Hour, Shards: 1})
		const callers, rounds = 16, 100
		atMost := sends(&f.Bubble[0].Calls)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range rounds {
					limittest.ErrorIs(t, limittest.Err(l.Allow(t.Context())), nil)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second) // the last request yields, too
		atMost(t, rounds*callers/12)
	})
}
