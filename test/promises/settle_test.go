package promises

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestWhatWasNotGrantedIsNotSettled(t *testing.T) {
	c := limittest.Standalone(t).Client(t)
	l := limittest.Limiter(t, c, "l", shardlimit.PerHour(10))
	other := limittest.Limiter(t, c, "other", shardlimit.PerHour(10))
	d := limittest.MustGet(t, l, 10)
	denied, err := l.Allow(t.Context())
	if err != nil || denied.Allowed {
		t.Fatalf("%+v, %v", denied, err)
	}
	if err := errors.Join(l.Settle(t.Context(), denied, 0), l.Settle(t.Context(), shardlimit.Decision{}, 0),
		l.Settle(t.Context(), shardlimit.Decision{Allowed: true, Granted: 5}, 0)); err != nil {
		t.Error(err)
	}
	both, err := limittest.Set(1, limittest.Limiter(t, c, "of a set", shardlimit.PerHour(10))).Allow(t.Context())
	if err != nil || !both.Allowed {
		t.Fatalf("%+v, %v", both, err)
	}
	for name, err := range map[string]error{"another's": other.Settle(t.Context(), d, 0),
		"a set's": other.Settle(t.Context(), both, 0)} {
		if !errors.Is(err, shardlimit.ErrOtherLimiter) || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if used := limittest.Peek(t, l).Used; used != 10 {
		t.Errorf("%d permits are used, want 10", used)
	}
	forged := d
	forged.Granted = 1000
	limittest.Must(t, l.Settle(t.Context(), forged, 0))
	if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 10 {
		t.Errorf("%d used, %d free: the refund was not clamped", st.Used, st.Remaining)
	}
}

func TestSettleAfterTheWindowGivesNothingBack(t *testing.T) {
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
		shardlimit.Limit{Permits: 10, Per: 100 * time.Millisecond})
	old := limittest.MustGet(t, l, 10)
	limittest.Must(t, l.WaitN(t.Context(), 10))
	if err := l.SetLimit(t.Context(), shardlimit.PerHour(10)); err != nil { // so that what is used now stays
		t.Fatal(err)
	}
	before := limittest.Peek(t, l).Used
	limittest.Must(t, l.Settle(t.Context(), old, 0))
	if after := limittest.Peek(t, l).Used; after != before {
		t.Errorf("%d permits were used, %d after the refund of a decision that has left the window", before, after)
	}
}

// The window grows while the decision is in it. That it was refunded must be
// remembered for as long as there is something that could be given back.
func TestSettledOnceThoughTheWindowGrows(t *testing.T) {
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
		shardlimit.Limit{Permits: 10, Per: 300 * time.Millisecond})
	var same []shardlimit.Decision // in one entry of the log, as calls of one batch are
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			d, err := l.Allow(t.Context())
			if err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
			mu.Lock()
			same = append(same, d)
			mu.Unlock()
		})
	}
	wg.Wait()
	again := same[:9]
	for _, d := range again {
		limittest.Must(t, l.Settle(t.Context(), d, 0))
	}
	refunded := time.Now()
	limittest.Must(t, l.SetLimit(t.Context(), shardlimit.PerHour(10)))
	limittest.AwaitThat(t, "the old window has passed",
		func() bool { return time.Since(refunded) > 400*time.Millisecond })
	before := limittest.Peek(t, l).Used
	if before == 0 {
		t.Log("the machine was too slow: the window had passed before it grew")
		return
	}
	for _, d := range again {
		limittest.Must(t, limittest.Once(l.Settle(t.Context(), d, 0)))
	}
	if after := limittest.Peek(t, l).Used; after != before {
		t.Errorf("%d permits were used, %d after one decision was refunded again", before, after)
	}
}

func TestASettleThatFailedMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 2, redistest.Persistent())
	for i, p := range posts {
		fl.Nodes[i].Redis.InitAddress = []string{p.Server.Addr()} // a proxy would accept the connection
	}
	l := limittest.Limiter(t, fl.Client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
	d, err := l.AllowN(t.Context(), 100) // of both nodes
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	posts[0].Server.Kill()
	limittest.AwaitThat(t, "the node is seen as gone", func() bool {
		st, err := l.Peek(t.Context())
		return err == nil && limittest.ShardOn(t, st, posts[0].Name).Err != nil
	})
	err = l.Settle(t.Context(), d, 0)
	var where *shardlimit.ShardError
	if !errors.As(err, &where) || where.Node != posts[0].Name {
		t.Fatalf("%v", err)
	}
	posts[0].Server.Restart()
	limittest.AwaitThat(t, "the rest is given back", func() bool {
		_ = l.Settle(t.Context(), d, 0)
		st, err := l.Peek(t.Context())
		return err == nil && st.Used == 0 && st.Remaining == 100
	})
}

// Grants that share an entry of the log: giving one back twice would take what
// another caller still uses.
func TestSettleNeverTakesWhatOthersWereGranted(t *testing.T) {
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
		shardlimit.Limit{Permits: 10_000, Per: time.Hour, Shards: 1})
	for range 40 { // from here on, what is granted within half a minute is one entry
		if _, err := l.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.AllowN(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	d := limittest.MustGet(t, l, 60)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := limittest.Once(l.Settle(t.Context(), d, 0)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if used := limittest.Peek(t, l).Used; used != 140 {
		t.Errorf("%d permits are used after the refund, want 140", used)
	}
	late := limittest.MustGet(t, l, 7)
	limittest.Must(t, errors.Join(l.Reset(t.Context()), l.Settle(t.Context(), late, 0)))
	if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 10_000 {
		t.Errorf("what a reset has freed was given back: %+v", st)
	}
}

// allowed makes n calls for a permit each, which must all be granted.
func allowed(tb testing.TB, l *shardlimit.Limiter, n int) (granted []shardlimit.Decision) {
	tb.Helper()
	for range n {
		d, err := l.Allow(tb.Context())
		if err != nil || !d.Allowed {
			tb.Fatalf("%+v, %v", d, err)
		}
		granted = append(granted, d)
	}
	return granted
}

// What a call took is settled though its context has ended: a request that was cancelled is
// settled, too.
func TestSettleGoesOnAfterTheEndOfAContext(t *testing.T) {
	t.Parallel()
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l", shardlimit.PerHour(10))
	ended, end := context.WithCancel(t.Context())
	granted := allowed(t, l, 5)
	end()
	for _, d := range granted {
		limittest.Must(t, l.Settle(ended, d, 0))
	}
	if used := limittest.Peek(t, l).Used; used != 0 {
		t.Errorf("%d permits are in use", used)
	}
}

// A caller that takes all permits and gives them back at once, over many windows, finds all of them
// each time, and never more. Between two rounds the queue of a leaky bucket becomes empty.
func TestTakingAndGivingBackChangesNothing(t *testing.T) {
	for _, a := range limittest.Algorithms {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: a, Shards: 1}
			l := limittest.Limiter(t, f.Client(t), "l", limit)
			for round := range 100 {
				d, err := l.AllowUpTo(t.Context(), 2*limit.Permits)
				if err == nil {
					err = l.Settle(t.Context(), d, 0)
				}
				if err != nil || d.Granted != limit.Permits {
					t.Fatalf("%v, round %d: %d permits, %v", a, round, d.Granted, err)
				}
				time.Sleep(110 * time.Millisecond)
			}
		})
	}
}

// Settle gives back what was granted in a short window after that was lengthened: it counts still.
func TestASettleComesAfterALongerWindow(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerSecond(10))
		d := limittest.MustGet(t, l, 10)
		time.Sleep(500 * time.Millisecond)
		limittest.Must(t, l.SetLimit(t.Context(), shardlimit.PerMinute(10)))
		time.Sleep(2 * time.Second)
		limittest.Must(t, l.Settle(t.Context(), d, 0))
		if st := limittest.Peek(t, l); st.Used != 0 {
			t.Errorf("%d are used", st.Used)
		}
	})
}
