package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/shard"
)

// A new limit is served within a second of its first call, and can be changed, although any one of
// three nodes is down, and has been since before the process began.
func TestANewLimitWhileAnyNodeIsDown(t *testing.T) {
	for name, change := range map[string]func(*shardlimit.Config){
		"takeover": limittest.TakesOver, "no takeover": func(*shardlimit.Config) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 3)
				fl.Punctual = true
				time.Sleep(2 * time.Minute) // the servers have run for a while
				for down := range nodes {
					for i, n := range nodes {
						n.Down.Store(i == down)
					}
					client, dead, unchanged := fl.Client(t, change), 0, 0
					var last *shardlimit.Limiter
					for i := range 8 {
						limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
						l := limittest.Limiter(t, client, fmt.Sprint("l", down, i), limit)
						last = l
						begun := time.Now()
						for d, err := l.Allow(t.Context()); err != nil || !d.Allowed; d, err = l.Allow(t.Context()) {
							if time.Since(begun) > time.Second {
								dead++
								break
							}
							time.Sleep(20 * time.Millisecond)
						}
						limit.Permits = 600
						if err := l.SetLimit(t.Context(), limit); l.Limit().Permits != 600 {
							unchanged++
							_ = err
						}
					}
					if dead > 0 || unchanged > 0 {
						t.Errorf("with n%d down: of 8 new limits %d are dead, %d cannot be changed", down, dead,
							unchanged)
					}
					nodes[down].Down.Store(false)
					for range 12 { // who is back is told where the records are by those that go on
						time.Sleep(10 * time.Second)
						_, _ = last.Allow(t.Context())
					}
					client.Close()
				}
			})
		})
	}
}

// Servers that were started again with all that they had, or whose replicas were promoted, have
// limits that Open finds, whoever asks first: a job that only opens need not wait for another one.
func TestALimitIsOpenedAfterItsServersWereRestarted(t *testing.T) {
	all := func(string) bool { return true }
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := limittest.BubbledNodes(t, nodes)
				first := f.Client(t)
				l := limittest.Limiter(t, first, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
				if d, err := l.AllowN(t.Context(), 4); err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				first.Close()
				for _, s := range servers {
					image := s.Redis.Save(all)
					s.Redis.Restart()
					s.Redis.Load(image, all)
				}
				time.Sleep(time.Minute)
				l, err := f.Client(t).Open(t.Context(), "l")
				if err != nil {
					t.Fatal(err)
				}
				if s, err := l.Peek(t.Context()); err != nil || s.Used != 4 {
					t.Errorf("%d used, %v", s.Used, err)
				}
				if err := l.SetLimit(t.Context(), shardlimit.Limit{Permits: 20, Per: time.Hour}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A read in the background that goes on while a limit is deleted does not bring it back.
func TestADeletedLimitDoesNotComeBack(t *testing.T) {
	for slow := range 3 {
		t.Run(fmt.Sprint("node ", slow, " is slow"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := limittest.BubbledNodes(t, 3)
				c := f.Client(t)
				limittest.Limiter(t, c, "other", shardlimit.Limit{Permits: 10, Per: time.Hour})
				pause := func(d time.Duration) { servers[slow].Paused.Store(time.Now().Add(d).UnixNano()) }
				pause(200 * time.Millisecond) // the record of the limit is begun without it
				l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
				time.Sleep(16 * time.Second)
				pause(60 * time.Millisecond) // the record is read again, and this one waited for
				for range 3 {
					_, _ = l.Allow(t.Context()) // it may meet the slow one
				}
				time.Sleep(3 * time.Millisecond)
				if err := l.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if _, err := f.Client(t).Open(t.Context(), "l"); !errors.Is(err, shardlimit.ErrNotFound) {
					t.Errorf("it is back: %v", err)
				}
			})
		})
	}
}

// Of six nodes two that keep records are drained as docs/howto/change-nodes.md says, and stopped.
// Everything is served on.
func TestDrainedPlacesMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 6)
		fl.Punctual = true
		limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
		clients := []*shardlimit.Client{fl.Client(t, limittest.TakesOver), fl.Client(t, limittest.TakesOver)}
		limiters := make([]*shardlimit.Limiter, 4)
		open := func(i int, c *shardlimit.Client) {
			limiters[i] = limittest.Limiter(t, c, "l", limit)
			limiters[i+1] = limittest.Family(t, c, "f", shardlimit.PerSecond(100)).Limiter("user")
		}
		for i, c := range clients {
			open(2*i, c)
		}
		call := func(d time.Duration) (calls, served int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for _, l := range limiters {
					calls++
					if d, err := l.Allow(t.Context()); err == nil && d.Allowed {
						served++
					}
				}
			}
			return calls, served
		}
		call(5 * time.Second)
		going := limittest.RecordNodes(clients[0])[:2]
		list := slices.Clone(fl.Nodes)
		for i := range list {
			list[i].Drain = slices.Contains(going, list[i].Name)
		}
		everywhere := func(list []shardlimit.Node) {
			fl.Restart(t, clients, list, func(i int, c *shardlimit.Client) { open(2*i, c) }, limittest.TakesOver)
		}
		everywhere(list)
		for _, c := range clients {
			if err := c.Rebalance(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		call(30 * time.Second)
		for i := 0; i < len(limiters); i += 2 {
			if st := limittest.Peek(t, limiters[i]); !st.Settled || len(limittest.Hosts(st)) != 4 {
				t.Fatal(fmt.Sprint("after the drain: ", limittest.Hosts(st), " settled: ", st.Settled))
			}
		}
		everywhere(slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain }))
		for i, n := range fl.Nodes {
			nodes[i].Down.Store(slices.Contains(going, n.Name))
		}
		call(30 * time.Second)
		if calls, served := call(10 * time.Second); served < calls*99/100 {
			t.Errorf("%d of %d calls are served", served, calls)
		}
	})
}

// A later version gives a limit an algorithm that this one does not know. A process of this version
// reads that again and again. It uses its old shards for as long as they have state, and begins
// none anew.
func TestARecordOfALaterVersionConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		l := limittest.Limiter(t, f.Client(t), "l",
			shardlimit.Limit{Permits: 100, Per: 100 * time.Millisecond, Shards: 1})
		if got := limittest.Exhaust(t, l, 100); got != 100 {
			t.Fatalf("%d of 100 permits", got)
		}
		ofTheFuture(t, servers[0])
		time.Sleep(100 * time.Millisecond)
		if got := limittest.Exhaust(t, l, 100); got != 100 {
			t.Errorf("%d of 100 permits while the shards have state", got)
		}
		time.Sleep(6 * time.Second) // what was believed before is over
		// as if the later version had taken the capacity, and that had been forgotten
		servers[0].Drop(func(key string) bool { return !isRecord(key) })
		for range 60 {
			if d, _ := l.AllowUpTo(t.Context(), 100); d.Granted > 0 {
				t.Fatalf("%d permits of a shard that began anew", d.Granted)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// ofTheFuture has the records on a server name another algorithm, as the next layout.
func ofTheFuture(t *testing.T, m *redissim.Server) {
	t.Helper()
	for key := range recordsOn(t, m).Image {
		if !isLayout(key) {
			continue
		}
		place, _ := m.Do([]string{"GET", key}).(string)
		layout := layoutAt(t, place)
		var is shard.Layout
		if err := json.Unmarshal([]byte(layout), &is); err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(strings.Replace(layout, fmt.Sprintf(`"epoch":%d`, is.Epoch),
			fmt.Sprintf(`"epoch":%d`, is.Epoch+1), 1), `"algorithm":"sliding_log"`, `"algorithm":"of_the_future"`, 1)
		if len(changed) != len(layout)+len("of_the_future")-len("sliding_log") {
			t.Fatalf("the record is not as expected: %s", layout)
		}
		m.Do([]string{"SET", key, withLayout(t, place, changed)})
	}
}
