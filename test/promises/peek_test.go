package promises

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// mute is a Redis client that answers nothing while it is quiet.
type mute struct {
	rueidis.Client
	quiet atomic.Bool
}

func (m *mute) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if m.quiet.Load() {
		<-ctx.Done()
	}
	return m.Client.Do(ctx, cmd)
}

func TestPeekTakesAsLongAsACallMayTake(t *testing.T) {
	for _, most := range []time.Duration{50 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := limittest.Bubbled(t, 1)
			inner, err := rueidis.NewClient(f.Nodes[0].Redis)
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			m := &mute{Client: inner}
			f.Nodes[0] = shardlimit.Node{Name: "n0", Client: m}
			l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(most)), "l", shardlimit.PerHour(10))
			m.quiet.Store(true)
			for name, look := range map[string]func() error{
				"Peek":         func() error { _, err := l.Peek(t.Context()); return err },
				"Participants": func() error { _, err := l.Participants(t.Context()); return err },
			} {
				begun := time.Now()
				if err := look(); !errors.Is(err, shardlimit.ErrUnavailable) || time.Since(begun) != most {
					t.Errorf("%s ended after %s: %v", name, time.Since(begun), err)
				}
			}
			begun := time.Now()
			if err := l.Reset(t.Context()); err == nil || time.Since(begun) != max(most, 2*time.Second) {
				t.Errorf("Reset ended after %s: %v", time.Since(begun), err)
			}
		})
	}
}

// A shard in quarantine has all of its share when that ends, and State knows when.
func TestPeekCountsAShardInQuarantineFromItsEnd(t *testing.T) {
	for _, a := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.TokenBucket} {
		t.Run(a.String(), func(t *testing.T) {
			fl, posts := limittest.Proxied(t, 1)
			l := limittest.Limiter(t, fl.Client(t, limittest.AfterLoss(shardlimit.Quarantine)), "l",
				shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: a})
			if d, err := l.AllowN(t.Context(), 3); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			posts[0].Do(t, "FLUSHALL")
			limittest.AwaitThat(t, "the loss is noticed", func() bool {
				d, err := l.Allow(t.Context())
				return err == nil && !d.Allowed
			})
			st := limittest.Peek(t, l)
			for st.Shards[0].Quarantine == time.Hour { // not yet a microsecond later
				st = limittest.Peek(t, l)
			}
			left := st.Shards[0].Quarantine
			if left == 0 || st.RetryAfter != left {
				t.Errorf("the first in %s, quarantine for %s", st.RetryAfter, left)
			}
		})
	}
}

// A bucket that leaves to another algorithm keeps back what it let through: that is in use. A
// process that never knew it as anything but leaving can look at it, too.
func TestPeekTellsWhatALeavingBucketKeepsBack(t *testing.T) {
	for _, a := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.LeakyBucket} {
		t.Run(a.String(), func(t *testing.T) {
			f := limittest.Standalone(t)
			limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: a, Shards: 1}
			l := limittest.Limiter(t, f.Client(t), "l", limit)
			if d, err := l.AllowN(t.Context(), 8); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			limit.Algorithm = shardlimit.SlidingLog
			if err := l.SetLimit(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
			for _, who := range []*shardlimit.Limiter{l, limittest.Limiter(t, f.Client(t), "l", limit)} {
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

// A process that makes no other calls sees soon what others have changed.
func TestPeekLearnsOfAnotherLayout(t *testing.T) {
	f := limittest.Standalone(t)
	limit := shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 1}
	limiters := f.Group(t, 2, "l", limit)
	limittest.Peek(t, limiters[1])
	limit.Shards = 4
	if err := limiters[0].SetLimit(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	limittest.AwaitThat(t, "a process that only looks sees four shards",
		func() bool { return len(limittest.Peek(t, limiters[1]).Shards) == 4 })
}
