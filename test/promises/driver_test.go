package promises

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A process that has lowered a limit and has nothing else to do asks each shard that has permits to
// give up a few times a minute, however long the window is. The change is complete a minute after
// it can be.
func TestADriverAsksSeldom(t *testing.T) {
	for name, algorithm := range map[string]shardlimit.Algorithm{
		"sliding log": shardlimit.SlidingLog, "sliding counter": shardlimit.SlidingCounter,
	} {
		if !extent.Plays(int(algorithm)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const window = 4 * time.Hour
				f := limittest.Bubbled(t, 1)
				ctx := t.Context()
				shards := int64(4)
				if extent.Full {
					shards = 256
				}
				all := 100 * shards
				limit := shardlimit.Limit{Permits: all, Per: window, Shards: int(shards), Algorithm: algorithm}
				l := f.Limiter(t, limit)
				var last time.Time
				for range 8 { // an eighth of the shards each time
					if d, err := l.AllowUpTo(ctx, all/8); err != nil || d.Granted != all/8 {
						t.Fatalf("%+v, %v", d, err)
					}
					last = time.Now()
					time.Sleep(window / 24)
				}
				_, _ = l.AllowUpTo(ctx, all)
				limit.Permits /= 100 // one permit a shard: all must have left but for one of each
				limittest.Must(t, l.SetLimit(ctx, limit))
				time.Sleep(10 * time.Second)
				for minute := range 10 {
					before := f.Bubble[0].Calls.Load()
					time.Sleep(time.Minute)
					if n := f.Bubble[0].Calls.Load() - before; n > 8*shards {
						t.Fatalf("minute %d: %d script calls", minute, n)
					}
				}
				ends := last.Add(window + time.Minute)
				time.Sleep(time.Until(last.Add(window - 2*time.Second)))
				if st, err := l.Peek(ctx); err != nil || st.Settled {
					t.Errorf("two seconds before the last permits leave: settled %t, %v", st.Settled, err)
				}
				time.Sleep(time.Until(ends))
				if st, err := l.Peek(ctx); err != nil || !st.Settled {
					t.Errorf("a minute after the last permits have left: settled %t, %v", st.Settled, err)
				}
			})
		})
	}
}

// What is given back to a shard that gives its capacity up is noticed within half a minute, not
// when it would have left its window.
func TestADriverNoticesARefund(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: 24 * time.Hour, Shards: 2})
		d := limittest.MustGet(t, l, 100)
		limittest.Must(t, l.SetLimit(ctx, shardlimit.Limit{Permits: 50, Per: 24 * time.Hour, Shards: 2}))
		time.Sleep(time.Minute)
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("before the refund: settled %t, %v", st.Settled, err)
		}
		limittest.Must(t, l.Settle(ctx, d, 0))
		time.Sleep(31 * time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("half a minute after the refund: settled %t, %v", st.Settled, err)
		}
	})
}

// While a node is away that a change waits for, the process that made the change asks the others a
// few times a second at the most, and completes the change some seconds after the node is back.
func TestADriverBacksOffWhileANodeIsAway(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		c := f.Client(t, limittest.PatientFor(100*time.Millisecond))
		limit := shardlimit.Limit{Permits: 1200, Per: 100 * time.Millisecond, Shards: 12}
		var all []*shardlimit.Limiter
		for i := range 9 {
			all = append(all, limittest.Limiter(t, c, fmt.Sprint("l", i), limit))
			limittest.MustGet(t, all[i], 1200)
		}
		time.Sleep(5 * time.Second) // they are not new any more
		f.Bubble[2].Down.Store(true)
		var l *shardlimit.Limiter
		for _, l = range all {
			limit.Permits, limit.Shards = 1600, 16
			var away *shardlimit.ShardError
			if err := l.SetLimit(ctx, limit); errors.As(err, &away) && !errors.Is(err, shardlimit.ErrUnavailable) {
				break // the change is stored, and the limit has shards on the node that is away
			}
			l = nil
		}
		if l == nil {
			t.Fatal("no limit could be changed")
		}
		time.Sleep(10 * time.Second)
		before := f.Bubble[0].Calls.Load() + f.Bubble[1].Calls.Load()
		time.Sleep(time.Minute)
		n := f.Bubble[0].Calls.Load() + f.Bubble[1].Calls.Load() - before
		t.Logf("%d script calls in a minute", n)
		if n > 240 {
			t.Errorf("%d script calls in a minute while a node is away", n)
		}
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("while the node is away: settled %t, %v", st.Settled, err)
		}
		f.Bubble[2].Down.Store(false)
		time.Sleep(12 * time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("after the node is back: settled %t, %v", st.Settled, err)
		}
	})
}

// A change that follows while capacity still moves for the one before has a driver of its own.
func TestAChangeAfterAChangeIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 1600, Per: 4 * time.Hour, Shards: 4}
		l := limittest.Bubbled(t, 1).Limiter(t, limit)
		limittest.MustGet(t, l, 1600)
		for _, limit.Permits = range []int64{400, 200} {
			limittest.Must(t, l.SetLimit(t.Context(), limit))
			time.Sleep(10 * time.Minute) // the driver looks but twice a minute now
		}
		time.Sleep(limit.Per)
		if st := limittest.Peek(t, l); !st.Settled {
			t.Errorf("it still moves: %+v", st)
		}
	})
}
