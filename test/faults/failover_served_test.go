package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
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

// With DefaultNodeTimeout, what a lost node has of a limit a second is served again within 20 s,
// and within 30 s once it is back. No window is ever over.
func TestALimitIsServedInFullAfterANodeWasLost(t *testing.T) {
	if race.Enabled {
		return // one of the processes calls at a time
	}
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 4}
				fl, nodes := limittest.BubbledNodes(t, 4)
				fl.Punctual = true
				w := &lossWorld{node: nodes[0]}
				far := fl.With(fl.Nodes[0]).CutBy(&w.cut)
				far.Nodes = append(far.Nodes, fl.Nodes[1:]...)
				var limiters []*shardlimit.Limiter
				for _, f := range []limittest.Fleet{far, fl, fl} {
					limiters = append(limiters, limittest.Limiter(t, f.Client(t, limittest.TakesOver), "l", limit))
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
