package faults

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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

func everyKey(string) bool { return true }

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
			ops, begun := served()
			limittest.KeepsTo(t, limit, ops)
			judge := func(what string, from, to time.Time, within time.Duration) {
				counts := history.PerWindow(limit.Per, int64(from.Sub(begun)), int64(to.Sub(begun)), ops)
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
// and tells what they got, and since when.
func wanting(t *testing.T, limiters []*shardlimit.Limiter) func() ([]history.Op, time.Time) {
	var record history.Recorder
	begun := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, l := range limiters {
		for k := range 4 {
			wg.Go(func() {
				tally := record.Tally()
				time.Sleep(time.Duration(i+3*k) * 8 * time.Millisecond)
				for limittest.Pause(ctx, 96*time.Millisecond) {
					start := time.Since(begun)
					d, _ := l.AllowUpTo(t.Context(), 2) // an error while the node is lost
					tally.Add(int64(start), int64(time.Since(begun)), d.Granted)
				}
			})
		}
	}
	return func() ([]history.Op, time.Time) {
		stop()
		wg.Wait()
		return record.Ops(), begun
	}
}

// A node falls and comes back twenty times within the time for which what keys had elsewhere
// counts. The keys follow all the same, and are served once that time is over.
func TestKeysFollowANodeThatFlaps(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		var log syncBuffer
		logs := func(c *shardlimit.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
		client := fl.Client(t, limittest.TakesOver, logs)
		falls, limit := 20, shardlimit.Limit{Permits: 10, Per: time.Hour}
		if race.Enabled { // what the detector can find is in the first
			falls, limit.Per = 3, 10*time.Minute
		}
		users := limittest.Family(t, client, "users", limit)
		key := func(i int) *shardlimit.Limiter { return users.Limiter(fmt.Sprint("user ", i)) }
		call := func(after time.Duration) {
			time.Sleep(after)
			for i := range 3 {
				_, _ = key(i).Allow(t.Context())
			}
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
			t.Errorf("%d times: %s", lost, log.buf.String())
		}
		dead := map[int]bool{}
		for end := time.Now().Add(2*limit.Per + 30*time.Second); time.Now().Before(end); {
			call(30 * time.Second)
		}
		for i := range 30 {
			if d, err := users.Limiter(fmt.Sprint("new ", i)).Allow(t.Context()); err != nil || !d.Allowed {
				dead[i] = true
			}
		}
		if len(dead) > 0 {
			t.Errorf("%d of 30 keys are dead two windows after the last return", len(dead))
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
			var log syncBuffer
			client := fl.Client(t, limittest.TakesOver, func(c *shardlimit.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
			l := limittest.Limiter(t, client, "l", limit)
			users := limittest.Family(t, client, "users", shardlimit.PerSecond(10))
			var key *shardlimit.Limiter
			time.Sleep(5 * time.Minute)
			for i := 0; key == nil; i++ {
				k := users.Limiter(fmt.Sprint("user ", i))
				limittest.MustGet(t, k, 1)
				if limittest.Peek(t, k).Shards[0].Node == "n0" {
					key = k
				}
			}
			limittest.Settled(t, l)
			fl.Bubble[0].Redis.Refuse(says)
			calls, bad, elsewhere, begun := 0, 0, 0, time.Now()
			for time.Since(begun) < 3*time.Minute {
				_, err := key.Allow(t.Context())
				_, limitErr := l.Allow(t.Context())
				if time.Since(begun) > 30*time.Second {
					calls++
					if err != nil {
						bad++
					}
					if limitErr != nil {
						elsewhere++
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			if bad+elsewhere > 0 {
				t.Errorf("after 30 s, of %d calls %d of a key and %d of a limit failed", calls, bad, elsewhere)
			}
			if out := log.count("node is put out"); out != 1 {
				t.Errorf("it was put out %d times", out)
			}
			if lines := log.count("node=n0"); lines > 10 {
				t.Errorf("%d lines of log", lines)
			}
			fl.Bubble[0].Redis.Refuse("")
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second / 10) {
				_, _ = l.Allow(t.Context())
			}
			if st := limittest.Peek(t, l); !st.Settled || len(limittest.Hosts(st)) != 4 {
				t.Errorf("30 s after it writes again the limit is on %v", limittest.Hosts(st))
			}
		})
	}
}

// syncBuffer is a log that many write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}
