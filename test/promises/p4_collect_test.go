package promises

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// An idle limit grants nine tenths of itself to one call, however many shards it has.
func TestALargeCallIsServedFromManyShards(t *testing.T) {
	for shards, rtt := range map[int]time.Duration{8: 10 * time.Millisecond, 32: 3 * time.Millisecond,
		64: time.Millisecond, 256: 0} {
		limittest.RunInBubble(t, fmt.Sprint(shards, " shards ", rtt), 2, func(t *testing.T, f limittest.Fleet) {
			f, _ = f.Distant(t, rtt)
			c := f.Client(t)
			l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 1_000_000, Per: time.Minute, Shards: shards})
			for range extent.Some(5) {
				d := limittest.Served(t, l, 900_000)
				if d, err := l.AllowN(t.Context(), 100_001); err != nil || d.Allowed ||
					d.RetryAfter < 50*time.Second {
					t.Errorf("more than there is: %+v, %v", d, err)
				}
				if d, err := l.AllowN(t.Context(), 100_000); err != nil || !d.Allowed ||
					l.Settle(t.Context(), d, 0) != nil {
					t.Errorf("the rest: %+v, %v", d, err)
				}
				limittest.Must(t, l.Settle(t.Context(), d, 0))
				time.Sleep(time.Second)
			}
		})
	}
}

// What a process knows of the shards may be old: others have used them, or given back.
func TestALargeCallIsServedWhateverWasBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 2).Distant(t, 2*time.Millisecond)
		limit := shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}
		mine, other := f.Limiter(t, limit), f.Limiter(t, limit)
		all := limittest.MustGet(t, other, 3200)
		limittest.Denied(t, mine, 1600)
		limittest.Must(t, other.Settle(t.Context(), all, 0))
		time.Sleep(2 * time.Second) // longer than an outlook is believed
		limittest.MustGet(t, mine, 3200)
		time.Sleep(time.Minute)
		limittest.MustGet(t, other, 2000)
		limittest.MustGet(t, mine, 1200)
	})
}

// replica makes processes one participant, so that fairness does not keep permits for one of them.
func replica(c *shardlimit.Config) { c.Participant = "service" }

// Of processes that collect at the same time one is served, and none of them holds on to a part.
func TestOfRivalsWhoCollectOneIsServed(t *testing.T) {
	for _, rivals := range []int{2, 3, 8} {
		for _, rtt := range []time.Duration{0, 2 * time.Millisecond} {
			if !extent.Full && rivals == 8 || race.Enabled && rtt == 0 {
				continue
			}
			limittest.RunInBubble(t, fmt.Sprint(rivals, " rivals ", rtt), 2, func(t *testing.T, f limittest.Fleet) {
				f, _ = f.Distant(t, rtt)
				var all []*shardlimit.Limiter
				for range rivals {
					all = append(all,
						f.Limiter(t, shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}, replica))
				}
				served := 0
				for range 10 {
					var winner atomic.Pointer[shardlimit.Decision]
					s := limittest.Together(rivals, func(i int) (shardlimit.Decision, error) {
						d, err := all[i].AllowN(t.Context(), 1920)
						if d.Allowed {
							winner.Store(&d)
						}
						return d, err
					})
					if s.Failed+s.Degraded > 0 || s.Allowed > 1 {
						t.Fatalf("%+v", s)
					}
					served += s.Allowed
					time.Sleep(2 * time.Second) // what was collected in vain is back, and outlooks are old
					limittest.Uses(t, all[0], int64(1920*s.Allowed))
					if d := winner.Load(); d != nil {
						for _, l := range all {
							_ = l.Settle(t.Context(), *d, 0)
						}
					}
				}
				if served < 9 {
					t.Errorf("%d of 10 times one was served", served)
				}
			})
		}
	}
}
