package promises

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/script"
)

// Calls for different keys share script calls. None of them waits for another to come back before
// 16 script calls are under way, or they carry a hundred. Those that wait then go as many at once.
func TestCallsForManyKeysGoTogetherAndAtOnce(t *testing.T) {
	for keys, trips := range map[int]time.Duration{16: 2, 300: 4} {
		synctest.Test(t, func(t *testing.T) {
			const away, together = 20 * time.Millisecond, 300 / 4
			f, net := limittest.Bubbled(t, 1).Distant(t, away)
			users := limittest.Family(t, f.Client(t, limittest.PatientFor(time.Second)), "users",
				shardlimit.PerMinute(3))
			for round := range 3 {
				calls, began := net[0].Calls.Load(), time.Now()
				granted, errs := limittest.AtOnce(t.Context(), users, 0, keys)
				took := time.Since(began)
				for i := range keys {
					if errs[i] != nil || granted[i] != 1 {
						t.Fatalf("key %d: %d granted, %v", i, granted[i], errs[i])
					}
				}
				if n := net[0].Calls.Load() - calls; n > together {
					t.Errorf("round %d: %d script calls for %d keys", round, n, keys)
				}
				// The first loads the scripts, and another one that is new to the node takes a
				// trip.
				if round > 0 && took > trips*away {
					t.Errorf("round %d of %d keys took %s, %s away", round, keys, took, away)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A key whose state is somebody else's, or damaged, harms no other key of its call.
func TestADamagedKeyHarmsNoOtherOfItsCall(t *testing.T) {
	t.Parallel()
	f, posts := limittest.Proxied(t, 1)
	users := limittest.Family(t, f.Client(t), "users", shardlimit.PerMinute(3))
	const keys, bad = 100, 17
	ref := refOf(t, f, users, fmt.Sprint("user ", bad))
	posts[0].Do(t, "SET", ref.Head(), "somebody else's")
	for range 3 {
		granted, errs := limittest.AtOnce(t.Context(), users, 0, keys)
		for i := range keys {
			switch {
			case i == bad && !errors.Is(errs[i], shardlimit.ErrUnavailable):
				t.Errorf("the damaged key: %v", errs[i])
			case i != bad && (errs[i] != nil || granted[i] != 1):
				t.Errorf("key %d: %d granted, %v", i, granted[i], errs[i])
			}
		}
	}
	if got := posts[0].Do(t, "GET", ref.Head()); got != "somebody else's" {
		t.Errorf("it was overwritten: %q", got)
	}
}

// refOf names the Redis keys of a key with one shard.
func refOf(t *testing.T, f limittest.Fleet, users *shardlimit.Family, key string) script.ShardRef {
	t.Helper()
	st := limittest.Peek(t, users.Limiter(key))
	return script.ShardKeys(f.Prefix, st.Shards[0].Tag, fmt.Sprintf("k%d:%s:%s", len(users.Name()), users.Name(), key))
}

// keyTraffic calls for keys at random until it is stopped, and records every grant.
type keyTraffic struct {
	records []*history.Recorder
	stopped atomic.Bool
	failed  atomic.Int64
	wg      sync.WaitGroup
}

// busyKeys of the keys get half of the calls, so that they are used up on the slowest machine, too.
const busyKeys = 10

func newKeyTraffic(keys, callers int, families ...*shardlimit.Family) *keyTraffic {
	k := &keyTraffic{}
	for range keys {
		k.records = append(k.records, &history.Recorder{})
	}
	for i := range callers {
		users := families[i%len(families)]
		k.wg.Go(func() {
			tallies := make([]*history.Tally, keys)
			for !k.stopped.Load() {
				key := rand.IntN(keys)
				if rand.IntN(2) == 0 {
					key = rand.IntN(busyKeys)
				}
				time.Sleep(time.Millisecond) // spares the processor
				start := history.Now()
				d, err := users.Limiter(fmt.Sprint("user ", key)).Allow(context.Background())
				if err != nil {
					k.failed.Add(1)
					continue
				}
				if d.Granted > 0 {
					if tallies[key] == nil {
						tallies[key] = k.records[key].Tally()
					}
					tallies[key].Add(start, history.Now(), d.Granted)
				}
			}
		})
	}
	return k
}

// stop ends the traffic, and fails if any key had more than its limit or if too few had all of it.
func (k *keyTraffic) stop(t *testing.T, limit shardlimit.Limit) {
	t.Helper()
	limittest.AwaitThat(t, "half of the keys that are called all the time had all of a window", func() bool {
		full := 0
		for _, r := range k.records[:busyKeys] {
			if history.Busiest(limit.Per, r.Ops()).Permits >= limit.Permits {
				full++
			}
		}
		return full >= busyKeys/2
	})
	k.stopped.Store(true)
	k.wg.Wait()
	total := int64(0)
	for key, r := range k.records {
		ops := r.Ops()
		if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
			t.Errorf("key %d: %s", key, worst)
		}
		total += history.Total(ops)
	}
	t.Logf("%d permits of %d keys, %d calls failed", total, len(k.records), k.failed.Load())
}

// P1 holds for each of a thousand keys, whatever happens to the way to a node.
func TestP1OfAThousandKeys(t *testing.T) {
	t.Parallel()
	f, posts := limittest.Proxied(t, 2)
	limit := shardlimit.Limit{Permits: 4, Per: 700 * time.Millisecond}
	var families []*shardlimit.Family
	for range 3 {
		families = append(families, limittest.Family(t, f.Client(t), "users", limit))
	}
	traffic := newKeyTraffic(1000, 24, families...)
	time.Sleep(time.Second)
	posts[0].Proxy.Stall(true)
	time.Sleep(300 * time.Millisecond)
	posts[0].Proxy.Stall(false)
	time.Sleep(500 * time.Millisecond)
	posts[1].Proxy.Cut()
	time.Sleep(1500 * time.Millisecond)
	traffic.stop(t, limit)
}

// On a cluster the keys of a family lie in few slots. While one of these is on its way to another
// server calls for keys in it may fail. No key is over, and all are served again afterwards.
func TestKeysAreNotOverWhileTheirSlotMoves(t *testing.T) {
	f, cluster := limittest.Clustered(t, 0)
	limit := shardlimit.Limit{Permits: 4, Per: 500 * time.Millisecond}
	families := []*shardlimit.Family{limittest.Family(t, f.Client(t), "users", limit),
		limittest.Family(t, f.Client(t), "users", limit)}
	traffic := newKeyTraffic(300, 12, families...)
	time.Sleep(700 * time.Millisecond)
	var (
		migrations []*redistest.Migration
		slots      = map[int]shardlimit.State{} // several keys lie in one
	)
	for i := range 12 {
		st := limittest.Peek(t, families[0].Limiter(fmt.Sprint("user ", i)))
		slots[st.Shards[0].Slot] = st
	}
	for _, st := range slots {
		migrations = append(migrations, limittest.BeginMigrations(cluster, st)...)
	}
	time.Sleep(300 * time.Millisecond)
	for _, m := range migrations {
		m.MoveKeys()
	}
	time.Sleep(300 * time.Millisecond)
	for _, m := range migrations {
		m.Finish()
	}
	traffic.stop(t, limit)
	time.Sleep(limit.Per)
	if granted, errs := limittest.AtOnce(t.Context(), families[0], 0, 12); slices.Contains(granted, 0) {
		t.Errorf("%v, %v", granted, errs)
	}
}
