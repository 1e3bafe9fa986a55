package shardlimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// TestALossThatANewProcessMeetsFirst: the only server and a process restart together. The new
// process finds neither record nor shard, and is served at once, as of a new limit. But what the
// others hold counts as soon as they notice, whether they call or not.
func TestALossThatANewProcessMeetsFirst(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, calls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, the others call: %v", algorithm, calls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { metFirstByANewProcess(t, algorithm, calls) })
			})
		}
	}
}

func metFirstByANewProcess(t *testing.T, algorithm shardlimit.Algorithm, calls bool) {
	f, servers := bubbledServers(t, 1)
	limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Algorithm: algorithm, Shards: 1}
	a, b := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
	if got := upTo(t, a, 30) + upTo(t, b, 20); got != 50 {
		t.Fatal(got, "permits")
	}
	time.Sleep(5 * time.Minute)
	servers[0].Restart()
	fresh := limiter(t, f.client(t), "l", limit)
	if got := upTo(t, fresh, 5); got != 5 {
		t.Errorf("%d permits at once, want 5", got)
	}
	after := int64(0)
	if calls {
		after += upTo(t, a, 1) + upTo(t, b, 1)
	}
	time.Sleep(16 * time.Second)
	free := int64(60 - 50 - 5)
	if bursty(algorithm) {
		free = 10 + 5 + 1 // it gained a permit a minute; the latest refill counts, not the sum
	}
	for _, l := range []*shardlimit.Limiter{fresh, a, b} {
		after += upTo(t, l, 60)
	}
	if after > free+1 || after < free-1 {
		t.Errorf("%d permits after the loss, want %d", after, free)
	}
}

// TestANewLimitOnANewServerCountsOnce: nothing was lost, and nobody reminds of anything, although
// several processes use the limit first at the same time.
func TestANewLimitOnANewServerCountsOnce(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, nodes := bubbledNodes(t, 1)
				limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Algorithm: algorithm, Shards: 1}
				var all []*shardlimit.Limiter
				for range 3 {
					all = append(all, limiter(t, f.client(t), "l", limit))
				}
				nodes[0].stuck.Store(int64(3 * time.Millisecond))
				done := make(chan int64)
				for i, l := range all {
					go func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						d, err := l.AllowN(t.Context(), 5)
						if err != nil {
							t.Error(err)
						}
						done <- d.Granted
					}()
				}
				for range all {
					if got := <-done; got != 5 {
						t.Errorf("%d permits, want 5", got)
					}
				}
				time.Sleep(time.Minute)
				used := int64(15)
				if bursty(algorithm) {
					used = 14
				}
				if s := peek(t, all[0]).Shards[0]; s.Used != used {
					t.Errorf("%d permits are in use, want %d", s.Used, used)
				}
			})
		})
	}
}

// TestWhatWasGrantedBeforeTheWindowGrewIsReminded: 600 permits of half a minute are used when the
// window becomes one of ten minutes. They count in that, also after a loss, of which another
// process hears with the change.
func TestWhatWasGrantedBeforeTheWindowGrewIsReminded(t *testing.T) {
	for _, algorithm := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter} {
		for _, short := range []time.Duration{time.Second, 30 * time.Second} {
			t.Run(fmt.Sprintf("%v of %v", algorithm, short), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, servers := bubbledServers(t, 1)
					limit := shardlimit.Limit{Permits: 600, Per: short, Algorithm: algorithm, Shards: 1}
					a := limiter(t, f.client(t), "l", limit)
					b := a // a second is too short to hear of the change with the loss
					if short > time.Second {
						b = limiter(t, f.client(t), "l", limit)
					}
					time.Sleep(time.Minute)
					if got := upTo(t, a, 300) + upTo(t, b, 300); got != 600 {
						t.Fatal(got, "permits")
					}
					limit.Per = 10 * time.Minute
					if err := a.SetLimit(t.Context(), limit); err != nil {
						t.Fatal(err)
					}
					time.Sleep(short / 2)
					servers[0].Restart()
					after := upTo(t, b, 600)
					for range 10 {
						time.Sleep(5 * time.Second)
						after += upTo(t, a, 600) + upTo(t, b, 600)
					}
					if after != 0 {
						t.Errorf("%d permits more within the window", after)
					}
				})
			})
		}
	}
}

// TestARefundTakesNothingOffWhatOthersWereGranted: permits from before a loss, which the shard was
// not reminded of yet, are given back. What another process was granted stays in use.
func TestARefundTakesNothingOffWhatOthersWereGranted(t *testing.T) {
	for _, algorithm := range algorithms {
		if bursty(algorithm) {
			continue // what b heard last includes what a was granted
		}
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := bubbledServers(t, 1)
				limit := shardlimit.Limit{Permits: 80, Per: time.Hour, Algorithm: algorithm, Shards: 1}
				a, b := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
				c := limiter(t, f.client(t), "l", limit)
				upTo(t, c, 15)
				time.Sleep(time.Second)
				d, err := a.AllowN(t.Context(), 30)
				if err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				time.Sleep(time.Second)
				upTo(t, b, 15)
				servers[0].Restart()
				upTo(t, b, 60) // this one and the next remind
				upTo(t, c, 60)
				time.Sleep(time.Second)
				if err := a.Refund(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				time.Sleep(31 * time.Second)
				if got := upTo(t, b, 80); got > 20 {
					t.Errorf("%d permits are free again, want at most 20", got)
				}
			})
		})
	}
}

// A server that loses its memory twice within a second is reminded twice.
func TestASecondLossRightAfterTheFirstIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 1)
		fl.punctual = true
		limit := shardlimit.Limit{Permits: 27, Per: time.Hour, Shards: 3}
		l := limiter(t, fl.client(t), "l", limit)
		if d, err := l.AllowUpTo(t.Context(), limit.Permits); err != nil || d.Granted != limit.Permits {
			t.Fatalf("%+v, %v", d, err)
		}
		time.Sleep(3 * time.Second)
		for range 2 {
			nodes[0].redis.Flush()
			nodes[0].redis.Restart()
			for range 2 {
				if d, err := l.AllowUpTo(t.Context(), limit.Permits); err != nil || d.Granted != 0 {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if d, err := l.AllowUpTo(t.Context(), limit.Permits); err != nil || d.Granted != 0 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
