package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A new limit is served within a second of its first call, and can be changed, although any one of
// three nodes is down, and has been since before the process began.
func TestANewLimitWhileAnyNodeIsDown(t *testing.T) {
	for name, change := range map[string]func(*shardlimit.Config){
		"takeover": limittest.TakesOver, "no takeover": func(*shardlimit.Config) {}} {
		limittest.RunInBubble(t, name, 3, func(t *testing.T, fl limittest.Fleet) {
			time.Sleep(2 * time.Minute) // the servers have run for a while
			for down := range fl.Bubble {
				for i, n := range fl.Bubble {
					n.Down.Store(i == down)
				}
				client := fl.Client(t, change)
				var l *shardlimit.Limiter
				for i := range 8 {
					limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
					l = limittest.Limiter(t, client, fmt.Sprint("l", down, i), limit)
					limittest.AwaitWithin(t, time.Second, "a new limit is served", func() bool { return serves(t, l) })
					limit.Permits = 600
					if err := l.SetLimit(t.Context(), limit); l.Limit().Permits != 600 {
						t.Errorf("with n%d down a new limit is not changed: %v", down, err)
					}
				}
				fl.Bubble[down].Down.Store(false)
				for range 12 { // who is back is told where the records are by those that go on
					time.Sleep(10 * time.Second)
					_, _ = l.Allow(t.Context())
				}
				client.Close()
			}
		})
	}
}

// Servers that were started again with all that they had, or whose replicas were promoted, have
// limits that Open finds, whoever asks first: a job that only opens need not wait for another one.
func TestALimitIsOpenedAfterItsServersWereRestarted(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		limittest.RunInBubble(t, fmt.Sprint(nodes, " nodes"), nodes, func(t *testing.T, f limittest.Fleet) {
			first := f.Client(t)
			l := limittest.Limiter(t, first, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
			limittest.MustGet(t, l, 4)
			first.Close()
			for _, s := range f.Bubble {
				image := s.Redis.Save(everyKey)
				s.Redis.Restart()
				s.Redis.Load(image, everyKey)
			}
			time.Sleep(time.Minute)
			l, err := f.Client(t).Open(t.Context(), "l")
			limittest.Must(t, err)
			limittest.Uses(t, l, 4)
			limittest.Must(t, l.SetLimit(t.Context(), shardlimit.Limit{Permits: 20, Per: time.Hour}))
		})
	}
}

// A read in the background that goes on while a limit is deleted does not bring it back.
func TestADeletedLimitDoesNotComeBack(t *testing.T) {
	for slow := range 3 {
		limittest.RunInBubble(t, fmt.Sprint("node ", slow, " is slow"), 3, func(t *testing.T, f limittest.Fleet) {
			c := f.Client(t)
			limittest.Limiter(t, c, "other", shardlimit.Limit{Permits: 10, Per: time.Hour})
			pause := func(d time.Duration) { f.Bubble[slow].Paused.Store(time.Now().Add(d).UnixNano()) }
			pause(200 * time.Millisecond) // the record of the limit is begun without it
			l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 10, Per: time.Hour})
			time.Sleep(16 * time.Second)
			pause(60 * time.Millisecond) // the record is read again, and this one waited for
			for range 3 {
				_, _ = l.Allow(t.Context()) // it may meet the slow one
			}
			time.Sleep(3 * time.Millisecond)
			limittest.Must(t, l.Delete(t.Context()))
			time.Sleep(2 * time.Second)
			limittest.ErrorIs(t, limittest.Err(f.Client(t).Open(t.Context(), "l")), shardlimit.ErrNotFound)
		})
	}
}

// Of six nodes two that keep records are drained as docs/howto/change-nodes.md says, and stopped.
// Everything is served on.
func TestDrainedPlacesMayStop(t *testing.T) {
	limittest.InBubble(t, 6, func(t *testing.T, fl limittest.Fleet) {
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
		use(t, 5*time.Second, limiters...)
		going := limittest.RecordNodes(clients[0])[:2]
		list := limittest.Drained(fl.Nodes, func(i int) bool { return slices.Contains(going, fl.Nodes[i].Name) })
		everywhere := func(list []shardlimit.Node) {
			fl.Restart(t, clients, list, func(i int, c *shardlimit.Client) { open(2*i, c) }, limittest.TakesOver)
		}
		everywhere(list)
		for _, c := range clients {
			limittest.Must(t, c.Rebalance(t.Context()))
		}
		use(t, 30*time.Second, limiters...)
		for i := 0; i < len(limiters); i += 2 {
			if st := limittest.Peek(t, limiters[i]); !st.Settled || len(limittest.Hosts(st)) != 4 {
				t.Fatal("after the drain: ", limittest.Hosts(st), " settled: ", st.Settled)
			}
		}
		everywhere(slices.DeleteFunc(list, func(n shardlimit.Node) bool { return n.Drain }))
		for i, n := range fl.Nodes {
			fl.Bubble[i].Down.Store(slices.Contains(going, n.Name))
		}
		use(t, 30*time.Second, limiters...)
		failed := 0
		for range 100 {
			for _, l := range limiters {
				if !serves(t, l) {
					failed++
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if failed > 4 {
			t.Errorf("%d of 400 calls are not served", failed)
		}
	})
}

// A node dies for good, undrained. A server that has just been started takes its name: what the
// dead one granted stays within the limit, and after a window all of it can be had again.
func TestADeadServerIsReplacedByAnEmptyOne(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 6}
	three := f.With(f.Nodes[:3]...)
	clients := []*shardlimit.Client{three.Client(t), three.Client(t)}
	var limiters []*shardlimit.Limiter
	for _, c := range clients {
		limiters = append(limiters, limittest.Limiter(t, c, "l", limit).As("all", 1))
	}
	callers := limittest.NewTraffic(t)
	callers.Dying, callers.Rest = true, 10*time.Millisecond // what the dead server granted cannot be given back
	callers.Start(2, limiters...)
	time.Sleep(3 * limit.Per) // an uptime is a difference of whole seconds: a limit as young would pass for new
	limittest.AwaitThat(t, "the limit is used",
		func() bool { return limittest.Peek(t, limiters[0]).Used >= limit.Permits*9/10 })
	servers[0].Kill()
	servers[3].Restart() // its uptime tells that it is empty
	replaced := f.Nodes[3]
	replaced.Name = f.Nodes[0].Name
	list := []shardlimit.Node{replaced, f.Nodes[1], f.Nodes[2]}
	f.Restart(t, clients, list, func(i int, c *shardlimit.Client) {
		limiters[i] = limittest.Limiter(t, c, "l", limit).As("all", 1)
		callers.Hand(i, limiters[i])
	})
	limittest.AwaitThat(t, "the whole limit is there again", func() bool {
		st := limittest.Peek(t, limiters[0])
		var share int64
		for _, s := range st.Shards {
			if s.Err == nil && s.Quarantine == 0 {
				share += s.Share
			}
		}
		return share == limit.Permits && st.Used >= limit.Permits*9/10
	})
	limittest.SharesSumTo(t, limiters[0], limit.Permits)
	callers.KeepsTo(t, limit, 2*limit.Per)
}

// TestANodeThatIsNotListedIsNamed: an error of a limit whose only shard is on such a node says so,
// and which one it is.
func TestANodeThatIsNotListedIsNamed(t *testing.T) {
	f, _ := limittest.Independent(t, 2)
	all := f.Client(t)
	for i := range 100 {
		name, limit := fmt.Sprint("l", i), shardlimit.PerSecond(10)
		st := limittest.Peek(t, limittest.Limiter(t, all, name, limit))
		other := st.Shards[0].Node
		listed := slices.DeleteFunc(slices.Clone(f.Nodes), func(n shardlimit.Node) bool { return n.Name == other })
		if !slices.Contains(st.Records, listed[0].Name) {
			continue // nobody would know of the limit
		}
		l := limittest.Limiter(t, f.With(listed...).Client(t), name, limit)
		_, err := l.Allow(t.Context())
		_, unseen := l.Peek(t.Context())
		for of, err := range map[string]error{"Allow": err, "Peek": unseen, "Reset": l.Reset(t.Context())} {
			var at *shardlimit.ShardError
			if of == "Allow" && !errors.Is(err, shardlimit.ErrUnavailable) || !errors.As(err, &at) ||
				at.Node != other || !strings.Contains(err.Error(), "is not in this process' Config") {
				t.Errorf("%s: %v", of, err)
			}
		}
		return
	}
	t.Error("all limits are on the node that keeps the records")
}

// A later version gives a limit an algorithm that this one does not know. A process of this version
// reads that again and again. It uses its old shards for as long as they have state, and begins
// none anew.
func TestARecordOfALaterVersionConfirmsNothing(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		redis := f.Bubble[0].Redis
		l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: 100 * time.Millisecond, Shards: 1})
		limittest.MustGet(t, l, 100)
		epoch := limittest.Peek(t, l).Epoch
		later := strings.NewReplacer(fmt.Sprintf(`"epoch":%d`, epoch), fmt.Sprintf(`"epoch":%d`, epoch+1),
			"sliding_log", "of_the_future")
		rewriteLayouts(t, redis, later.Replace)
		time.Sleep(100 * time.Millisecond)
		limittest.MustGet(t, l, 100)
		time.Sleep(6 * time.Second) // what was believed before is over
		// as if the later version had taken the capacity, and that had been forgotten
		redis.Drop(func(key string) bool { return !isRecord(key) })
		for range 60 {
			if d, _ := l.AllowUpTo(t.Context(), 100); d.Granted > 0 {
				t.Fatalf("%d permits of a shard that began anew", d.Granted)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}
