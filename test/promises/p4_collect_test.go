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
		t.Run(fmt.Sprint(shards, " shards ", rtt, " away"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := limittest.Bubbled(t, 2).Distant(t, rtt)
				c := f.Client(t)
				l := limittest.Limiter(t, c, "l",
					shardlimit.Limit{Permits: 1_000_000, Per: time.Minute, Shards: shards})
				for range extent.Some(5) {
					d, err := l.AllowN(t.Context(), 900_000)
					if err != nil || !d.Allowed || d.Degraded {
						t.Fatalf("%+v, %v", d, err)
					}
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
		})
	}
}

// What a process knows of the shards may be old: others have used them, or given back.
func TestALargeCallIsServedWhateverWasBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 2).Distant(t, 2*time.Millisecond)
		limit := shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}
		mine, other := limittest.Limiter(t, f.Client(t), "l", limit), limittest.Limiter(t, f.Client(t), "l", limit)
		all := limittest.MustGet(t, other, 3200)
		if d, err := mine.AllowN(t.Context(), 1600); err != nil || d.Allowed {
			t.Fatalf("nothing is free: %+v, %v", d, err)
		}
		limittest.Must(t, other.Settle(t.Context(), all, 0))
		time.Sleep(2 * time.Second) // longer than an outlook is believed
		if d, err := mine.AllowN(t.Context(), 3200); err != nil || !d.Allowed {
			t.Errorf("everything is free again: %+v, %v", d, err)
		}
		time.Sleep(time.Minute)
		if d, err := other.AllowN(t.Context(), 2000); err != nil || !d.Allowed {
			t.Errorf("a window later: %+v, %v", d, err)
		}
		if d, err := mine.AllowN(t.Context(), 1200); err != nil || !d.Allowed {
			t.Errorf("the rest, beside what another process took: %+v, %v", d, err)
		}
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
			t.Run(fmt.Sprint(rivals, " rivals ", rtt, " away"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, _ := limittest.Bubbled(t, 2).Distant(t, rtt)
					var all []*shardlimit.Limiter
					for range rivals {
						all = append(all,
							limittest.Limiter(t, f.Client(t, replica), "l",
								shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}))
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
						if used := limittest.Peek(t, all[0]).Used; used != int64(1920*s.Allowed) {
							t.Fatalf("%d permits are used after %d calls were served", used, s.Allowed)
						}
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
			})
		}
	}
}

// What a process did not see may be free: nobody is refused for that from memory.
func TestWhoDidNotSeeEveryShardRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := limittest.Bubbled(t, 1).Distant(t, time.Millisecond)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 8})
		limittest.MustGet(t, l, 200)
		if d, err := l.AllowN(t.Context(), 900); err != nil || d.Allowed || d.RetryAfter < 50*time.Minute {
			t.Errorf("100 are missing: %+v, %v", d, err)
		}
		time.Sleep(5 * time.Second)
		net[0].Takes.Store(int64(37 * time.Millisecond)) // to collect and give back: hardly any is left for a look
		d, err := l.AllowN(t.Context(), 900)
		if unknown, right := d.RetryAfter <= time.Second, d.RetryAfter >= 50*time.Minute; err != nil || d.Allowed ||
			!unknown && !right {
			t.Errorf("100 are missing, and it may not know: %+v, %v", d, err)
		}
		net[0].Takes.Store(int64(time.Millisecond))
		if d, err := l.AllowN(t.Context(), 800); err != nil || !d.Allowed {
			t.Errorf("the rest: %+v, %v", d, err)
		}
	})
}
