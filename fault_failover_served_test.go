package shardlimit_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// loss is how one of four nodes is lost, and what brings it back.
type loss struct {
	name        string
	cause, cure func(w *lossWorld)
	away        time.Duration // from one to the other
}

// lossWorld is four nodes, of which the first is lost, and three processes that call.
type lossWorld struct {
	post *proxiedNode
	old  redistest.Snapshot
	some *redistest.Proxy // the way of one of the processes to the node
}

const (
	// servedAgain and servedBack are how long after a node was lost, and after it is back, all of a
	// limit a second is served.
	servedAgain = 20 * time.Second
	servedBack  = 30 * time.Second
)

var losses = []loss{
	{"killed and back empty", func(w *lossWorld) { w.post.server.Kill(); w.post.proxy.Cut(); w.some.Cut() },
		func(w *lossWorld) { w.post.server.Restart() }, servedAgain + 4*time.Second},
	{"killed and back from an old snapshot",
		func(w *lossWorld) { w.post.server.Kill(); w.post.proxy.Cut(); w.some.Cut() },
		func(w *lossWorld) { w.post.server.RestartFrom(w.old) }, servedAgain + 4*time.Second},
	{"paused for 16 s", func(w *lossWorld) { w.post.server.Pause() }, func(w *lossWorld) { w.post.server.Resume() },
		16 * time.Second},
	{"cut off from one of three processes", func(w *lossWorld) { w.some.Stall(true) },
		func(w *lossWorld) { w.some.Stall(false) }, servedAgain + 4*time.Second},
}

// With DefaultNodeTimeout, what a lost node has of a limit a second is served again within 20
// s, and within 30 s once it is back. No window is ever over. SHARDLIMIT_FULL=1 plays every loss,
// and leaves a busy machine no more time than that.
func TestALimitIsServedInFullAfterANodeWasLost(t *testing.T) {
	t.Parallel()
	for i, l := range losses {
		if i > 0 && !extent.Full {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			servedAfterALoss(t, l)
		})
	}
}

func servedAfterALoss(t *testing.T, l loss) {
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	fl, posts := proxied(t, 4)
	w := &lossWorld{post: posts[0], some: redistest.NewProxy(t, posts[0].server.Addr())}
	some := fl
	some.nodes = slices.Clone(fl.nodes)
	some.nodes[0].Redis.InitAddress = []string{w.some.Addr()}
	patient := patientFor(250 * time.Millisecond)
	limiters := []*shardlimit.Limiter{limiter(t, some.client(t, patient, takesOver), "l", limit)}
	for range 2 {
		limiters = append(limiters, limiter(t, fl.client(t, patient, takesOver), "l", limit))
	}
	for _, l := range limiters {
		settled(t, l)
	}
	served := wanting(t, asOne(limiters))
	var err error
	if w.old, err = w.post.server.Save(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	lost := history.Now()
	l.cause(w)
	time.Sleep(l.away)
	back := history.Now()
	l.cure(w)
	time.Sleep(servedBack + 4*time.Second)
	ops, failed := served()
	keepsTo(t, limit, ops)
	slack := time.Duration(3)
	if extent.Full {
		slack = 1
	}
	judge := func(what string, from, to int64, within time.Duration) {
		counts := history.PerWindow(limit.Per, from, to, ops)
		after := restored(limit.Permits, counts)
		t.Logf("%s: all of it is served after %v: %v", what, after, counts)
		if after > slack*within {
			t.Errorf("%s: %v until all of it is served", what, after)
		}
	}
	judge("lost", lost, back, servedAgain)
	judge("back", back, history.Now(), servedBack)
	t.Logf("%d calls failed", failed)
}

// restored is after how many windows each of the others holds 97 % of the limit.
func restored(permits int64, counts []int64) time.Duration {
	after := 0
	for i, n := range counts {
		if n*100 < permits*97 {
			after = i + 1
		}
	}
	return time.Duration(after) * time.Second
}

// wanting has every limiter asked for more than its part, evenly spread. What is returned ends that
// and tells what they got, and how many calls failed.
func wanting(t *testing.T, limiters []*shardlimit.Limiter) func() ([]history.Op, int64) {
	var record history.Recorder
	var failed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	var wg sync.WaitGroup
	for _, l := range limiters {
		for range 4 {
			wg.Go(func() {
				tally := record.Tally()
				for ctx.Err() == nil {
					start := history.Now()
					d, err := l.AllowUpTo(context.WithoutCancel(ctx), 2)
					if err != nil {
						failed.Add(1)
					}
					tally.Add(start, history.Now(), d.Granted)
					time.Sleep(24 * time.Millisecond)
				}
			})
		}
	}
	return func() ([]history.Op, int64) {
		stop()
		wg.Wait()
		return record.Ops(), failed.Load()
	}
}
