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
	both := limittest.Passes(t, limittest.Set(1, limittest.Limiter(t, c, "of a set", shardlimit.PerHour(10))))
	for name, err := range map[string]error{"another's": other.Settle(t.Context(), d, 0),
		"a set's": other.Settle(t.Context(), both, 0)} {
		if !errors.Is(err, shardlimit.ErrOtherLimiter) || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	limittest.Uses(t, l, 10)
	forged := d
	forged.Granted = 1000
	limittest.Must(t, l.Settle(t.Context(), forged, 0))
	if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 10 {
		t.Errorf("%d used, %d free: the refund was not clamped", st.Used, st.Remaining)
	}
}

// Grants that share an entry of the log: giving one back twice would take what
// another caller still uses.
func TestSettleNeverTakesWhatOthersWereGranted(t *testing.T) {
	l := limittest.Standalone(t).Limiter(t, shardlimit.Limit{Permits: 10_000, Per: time.Hour, Shards: 1})
	for range 40 { // from here on, what is granted within half a minute is one entry
		limittest.MustGet(t, l, 1)
	}
	limittest.MustGet(t, l, 100)
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
	limittest.Uses(t, l, 140)
	late := limittest.MustGet(t, l, 7)
	limittest.Must(t, errors.Join(l.Reset(t.Context()), l.Settle(t.Context(), late, 0)))
	if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 10_000 {
		t.Errorf("what a reset has freed was given back: %+v", st)
	}
}

// What a call took is settled though its context has ended: a request that was cancelled is
// settled, too.
func TestSettleGoesOnAfterTheEndOfAContext(t *testing.T) {
	l := limittest.Standalone(t).Limiter(t, shardlimit.PerHour(10))
	ended, end := context.WithCancel(t.Context())
	granted := limittest.MustGet(t, l, 5)
	end()
	limittest.Must(t, l.Settle(ended, granted, 0))
	limittest.Uses(t, l, 0)
}

// A caller that takes all permits and gives them back at once, over many windows, finds all of them
// each time, and never more. Between two rounds the queue of a leaky bucket becomes empty.
func TestTakingAndGivingBackChangesNothing(t *testing.T) {
	for _, a := range limittest.Algorithms {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: a, Shards: 1}
			l := f.Limiter(t, limit)
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
