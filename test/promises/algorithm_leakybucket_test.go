package promises

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Sixteen processes fill the queue of a leaky bucket at once. What they may let act is even: on
// each shard the turns are one interval of the shard apart, and so all of them together keep to the
// rate, but for one turn for each shard to begin with.
func TestTheTurnsOfSixteenProcessesAreEven(t *testing.T) {
	t.Parallel()
	for name, place := range limittest.Places {
		for _, shards := range []int{1, 4} {
			t.Run(fmt.Sprint(name, ", ", shards, " shards"), func(t *testing.T) {
				t.Parallel()
				const permits, processes = 64, 16
				interval := time.Duration(shards) * 20 * time.Second // of a shard
				limit := shardlimit.Limit{
					Permits: permits, Per: permits * 20 * time.Second, Algorithm: shardlimit.LeakyBucket,
					Burst: permits, Shards: shards,
				}
				limiters := limittest.AsOne(place(t).Group(t, processes, "l", limit))
				begin := time.Now()
				turns := turnsOf(t, limiters, permits/processes)
				late := time.Since(begin) + time.Millisecond
				if len(turns) != permits {
					t.Fatalf("%d turns, want %d", len(turns), permits)
				}
				for i, turn := range turns {
					if off := turn - time.Duration(i/shards)*interval; off < 0 || off > late {
						t.Errorf("turn %d is after %s, want %s to %s later", i, turn, time.Duration(i/shards)*interval,
							late)
					}
				}
			})
		}
	}
}

// TestARaiseIsFeltByWhoeverComesNext: one permit a minute is taken, then the limit is raised, or
// its window becomes shorter. Who waits then has the next permits at the new rate, whatever the
// algorithm.
func TestARaiseIsFeltByWhoeverComesNext(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for name, to := range map[string]shardlimit.Limit{
			"raised":  {Permits: 100, Per: time.Minute, Algorithm: a, Shards: 1},
			"shorter": {Permits: 1, Per: 600 * time.Millisecond, Algorithm: a, Shards: 1},
		} {
			t.Run(fmt.Sprint(a, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "l",
						shardlimit.Limit{Permits: 1, Per: time.Minute,
							Algorithm: a, Shards: 1})
					limittest.MustGet(t, l, 1)
					time.Sleep(time.Second) // of the bubble's time
					if err := l.SetLimit(t.Context(), to); err != nil {
						t.Fatal(err)
					}
					begun := time.Now()
					for range 3 {
						if err := l.Wait(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					most := 1801 * time.Millisecond  // nobody else waits: each comes when it is due
					if a == shardlimit.LeakyBucket { // the first is due
						most = 1201 * time.Millisecond
					}
					if took := time.Since(begun); took > most {
						t.Errorf("three permits took %s", took)
					}
				})
			})
		}
	}
}

// turnsOf has every process ask for so many permits, one by one and all processes at once, and
// returns when they may act, counted from about the first call, in order.
func turnsOf(t *testing.T, limiters []*shardlimit.Limiter, each int) (turns []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for _, l := range limiters {
		wg.Go(func() {
			for range each {
				d, err := l.Allow(t.Context())
				got := time.Since(begin)
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				mu.Lock()
				turns = append(turns, got+d.Delay)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(turns)
	return turns
}
