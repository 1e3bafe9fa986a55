package faults

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/race"
)

// lossWorld is four nodes, of which the first is lost, and three processes that call.
type lossWorld struct {
	node *limittest.BubbleNode
	old  redissim.Image
	cut  atomic.Bool // one of the processes does not reach the node
}

const (
	// servedAgain and servedBack are how long after a node was lost, and after it is back, all of a
	// limit a second is served.
	servedAgain = 20 * time.Second
	servedBack  = 30 * time.Second
)

// losses are how a node is lost, what brings it back, and when.
var losses = []struct {
	name        string
	cause, cure func(w *lossWorld)
	away        time.Duration
}{
	{"killed and back empty", func(w *lossWorld) { w.node.Down.Store(true); w.node.Redis.Restart() },
		func(w *lossWorld) { w.node.Down.Store(false) }, servedAgain + 4*time.Second},
	{"killed and back from an old snapshot", func(w *lossWorld) { w.node.Down.Store(true); w.node.Redis.Restart() },
		func(w *lossWorld) { w.node.Redis.Load(w.old, everyKey); w.node.Down.Store(false) },
		servedAgain + 4*time.Second},
	{"paused for 16 s", func(w *lossWorld) { w.node.Paused.Store(time.Now().Add(16 * time.Second).UnixNano()) },
		func(*lossWorld) {}, 16 * time.Second},
	{"cut off from one of three processes", func(w *lossWorld) { w.cut.Store(true) },
		func(w *lossWorld) { w.cut.Store(false) }, servedAgain + 4*time.Second},
}

// With DefaultNodeTimeout, what a lost node has of a limit a second is served by the others within
// 20 s. Once it is back, whether it remembers or not, it has a part again within 30 s. No window is
// ever over.
func TestALostNodeIsTakenOver(t *testing.T) {
	if race.Enabled {
		return // one of the processes calls at a time
	}
	for _, l := range losses {
		limittest.RunInBubble(t, l.name, 4, func(t *testing.T, fl limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 4}
			w := &lossWorld{node: fl.Bubble[0]}
			far := fl.With(fl.Nodes[0]).CutBy(&w.cut)
			far.Nodes = append(far.Nodes, fl.Nodes[1:]...)
			var limiters []*shardlimit.Limiter
			for _, f := range []limittest.Fleet{far, fl, fl} {
				limiters = append(limiters, f.Limiter(t, limit, limittest.TakesOver))
				limittest.Settled(t, limiters[len(limiters)-1])
			}
			served := wanting(t, limittest.AsOne(limiters))
			w.old = w.node.Redis.Save(everyKey)
			time.Sleep(3 * time.Second)
			lost := time.Now()
			l.cause(w)
			time.Sleep(l.away)
			back := time.Now()
			l.cure(w)
			time.Sleep(servedBack + 4*time.Second)
			all := served()
			limittest.KeepsTo(t, limit, all.ops)
			judge := func(what string, from, to time.Time, within time.Duration) {
				counts := history.PerWindow(limit.Per, int64(from.Sub(all.begun)), int64(to.Sub(all.begun)), all.ops)
				after := restored(limit.Permits, counts)
				t.Logf("%s: all of it is served after %v: %v", what, after, counts)
				if after > within {
					t.Errorf("%s: %v until all of it is served", what, after)
				}
			}
			judge("lost", lost, back, servedAgain)
			judge("back", back, time.Now(), servedBack)
		})
	}
}

// restored is after how many windows the others hold 97 % of the limit on average, and 80 % each: a
// node that is lost leaves 75 %.
func restored(permits int64, counts []int64) time.Duration {
	after, rest := len(counts), int64(0)
	for i := len(counts) - 1; i >= 0 && counts[i]*100 >= permits*80; i-- {
		rest += counts[i]
		if rest*100 >= permits*97*int64(len(counts)-i) {
			after = i
		}
	}
	return time.Duration(after) * time.Second
}

// wanting has every limiter asked for more than its part, evenly spread. What is returned ends that
// and tells what they got.
func wanting(t *testing.T, limiters []*shardlimit.Limiter) func() *takings {
	all := &takings{begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, l := range limiters {
		for k := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i+3*k) * 8 * time.Millisecond)
				for limittest.Pause(ctx, 96*time.Millisecond) {
					_ = all.upTo(l, 2) // an error while the node is lost
				}
			})
		}
	}
	return func() *takings {
		stop()
		wg.Wait()
		return all
	}
}

// A node falls and comes back twenty times within the time for which what keys had elsewhere
// counts. The keys follow all the same, and are served once that time is over.
func TestKeysFollowANodeThatFlaps(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		log, logs := logged(slog.LevelInfo)
		falls, limit := 20, shardlimit.Limit{Permits: 10, Per: time.Hour}
		if race.Enabled { // what the detector can find is in the first
			falls, limit.Per = 3, 10*time.Minute
		}
		users := fl.Family(t, limit, limittest.TakesOver, logs)
		call := func(after time.Duration) {
			time.Sleep(after)
			_, _ = limittest.AtOnce(t.Context(), users, 0, 3)
		}
		until := func(line string, n int) {
			for begun := time.Now(); log.count(line) < n; call(2 * time.Second) {
				if time.Since(begun) > 15*time.Minute {
					t.Fatalf("no %d. %q", n, line)
				}
			}
		}
		for n := range falls {
			fl.Bubble[0].Down.Store(true)
			until("is put out", n+1)
			fl.Bubble[0].Down.Store(false)
			until("is in again", n+1)
		}
		if lost := log.count("too many arrangements"); lost > 0 {
			t.Errorf("%d times: %s", lost, log)
		}
		for end := time.Now().Add(2*limit.Per + 30*time.Second); time.Now().Before(end); {
			call(30 * time.Second)
		}
		if granted, errs := limittest.AtOnce(t.Context(), users, 100, 30); slices.Contains(granted, 0) {
			t.Errorf("keys are dead two windows after the last return: %v, %v", granted, errs)
		}
	})
}

// A node answers reads and refuses every write for three minutes. It is put out once, what
// it has is served by the others, and it does not come and go. When it writes again it has a part.
func TestANodeThatRefusesWritesIsLost(t *testing.T) {
	for _, says := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
	} {
		code, _, _ := strings.Cut(says, " ")
		limittest.RunInBubble(t, code, 4, func(t *testing.T, fl limittest.Fleet) {
			log, logs := logged(slog.LevelInfo)
			client := fl.Client(t, limittest.TakesOver, logs)
			l := limittest.Limiter(t, client, "l", shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4})
			users := limittest.Family(t, client, "users", shardlimit.PerSecond(10))
			key := users.Limiter("user 0")
			time.Sleep(5 * time.Minute)
			for i := 1; limittest.Peek(t, key).Shards[0].Node != "n0"; i++ {
				key = users.Limiter(fmt.Sprint("user ", i))
			}
			limittest.MustGet(t, key, 1)
			limittest.Settled(t, l)
			fl.Bubble[0].Redis.Refuse(says)
			use(t, 30*time.Second, key, l)
			for range 1500 {
				if !serves(t, key) || !serves(t, l) {
					t.Fatal("after 30 s a call of a key or of a limit failed")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if out := log.count("node is put out"); out != 1 {
				t.Errorf("it was put out %d times", out)
			}
			if lines := log.count("node=n0"); lines > 10 {
				t.Errorf("%d lines of log", lines)
			}
			fl.Bubble[0].Redis.Refuse("")
			use(t, 30*time.Second, l)
			if st := limittest.Peek(t, l); !st.Settled || len(limittest.Hosts(st)) != 4 {
				t.Errorf("30 s after it writes again the limit is on %v", limittest.Hosts(st))
			}
		})
	}
}
