package promises

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
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
					if err := l.Settle(t.Context(), d, 0); err != nil {
						t.Fatal(err)
					}
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
		all, err := other.AllowN(t.Context(), 3200)
		if err != nil || !all.Allowed {
			t.Fatalf("%+v, %v", all, err)
		}
		if d, err := mine.AllowN(t.Context(), 1600); err != nil || d.Allowed {
			t.Fatalf("nothing is free: %+v, %v", d, err)
		}
		if err := other.Settle(t.Context(), all, 0); err != nil {
			t.Fatal(err)
		}
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

// Of processes that collect at the same time one is served, if they come again when they are told
// to, and none holds on to a part.
func TestOfRivalsWhoCollectOneIsServed(t *testing.T) {
	for _, rivals := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(rivals, " rivals"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := limittest.Bubbled(t, 2).Distant(t, 2*time.Millisecond)
				var all []*shardlimit.Limiter
				for range rivals {
					all = append(all, limittest.Limiter(t, f.Client(t, replica), "l",
						shardlimit.Limit{Permits: 3200, Per: time.Minute, Shards: 32}))
				}
				s := limittest.Together(rivals, func(i int) (d shardlimit.Decision, err error) {
					for range 8 {
						d, err = all[i].AllowN(t.Context(), 1920)
						if err != nil || d.Allowed || d.RetryAfter > time.Second {
							break
						}
						time.Sleep(d.RetryAfter)
					}
					return d, err
				})
				if s.Failed+s.Degraded > 0 || s.Allowed != 1 {
					t.Fatalf("%+v", s)
				}
				time.Sleep(2 * time.Second) // what was collected in vain is back
				if used := limittest.Peek(t, all[0]).Used; used != 1920 {
					t.Fatalf("%d permits are used", used)
				}
			})
		})
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
