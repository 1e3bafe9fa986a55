package faults

import (
	"context"
	"fmt"
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

// stoppedWorld is a process whose machine can be stopped, and one that may be cut off from a node.
type stoppedWorld struct {
	*testing.T
	takings
	servers []*redissim.Server
	ice     ice
	cut     atomic.Int64 // the node that the other process does not reach; -1: none
	p, q    *shardlimit.Client
	nodes   []shardlimit.Node // of q
}

func newStoppedWorld(t *testing.T, nodes int, change ...func(*shardlimit.Config)) *stoppedWorld {
	race.OneProcessor(t)
	w := &stoppedWorld{T: t, takings: takings{begun: time.Now()}}
	w.cut.Store(-1)
	for range nodes {
		s := redissim.NewServer(time.Now)
		go s.Serve()
		t.Cleanup(s.Close)
		w.servers = append(w.servers, s)
	}
	const way = time.Millisecond
	process := func(refused func(int) bool, hold func()) (*shardlimit.Client, []shardlimit.Node) {
		f := limittest.Fleet{Prefix: "b:", Punctual: true}
		for i, s := range w.servers {
			fate := func([]string) redissim.Fate {
				return redissim.Fate{There: way, Back: way, Refused: refused(i)}
			}
			f.Nodes = append(f.Nodes,
				shardlimit.Node{Name: fmt.Sprint("n", i), Client: redissim.NewLink(s, fate, hold)})
		}
		return f.Client(t, change...), f.Nodes
	}
	w.p, _ = process(func(int) bool { return false }, w.ice.hold)
	w.q, w.nodes = process(func(i int) bool { return w.cut.Load() == int64(i) }, func() {})
	return w
}

// stop has the machine of p stand still with both of its clocks, while q goes on.
func (w *stoppedWorld) stop(d time.Duration, meanwhile func()) {
	time.Sleep(time.Second) // so that it interrupts nothing
	began := time.Now()
	w.ice.freeze()
	meanwhile()
	time.Sleep(d - time.Since(began))
	limittest.Stop(w.p, d)
	w.ice.melt()
}

// call has a process ask for one permit in a while, for so long.
func (w *stoppedWorld) call(d time.Duration, limiters ...*shardlimit.Limiter) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, l := range limiters {
			w.take(w.T, l, 1)
		}
	}
}

// crowd has so many callers of a process ask for permits at once, so that all shards are asked.
func (w *stoppedWorld) crowd(l *shardlimit.Limiter, callers int) {
	ops := make([]history.Op, callers)
	var calls sync.WaitGroup
	for i := range ops {
		calls.Go(func() {
			start := time.Since(w.begun)
			if d, err := l.AllowUpTo(context.Background(), 20); err == nil { // it may be told of a lost node
				ops[i] = history.Op{Start: int64(start), End: int64(time.Since(w.begun)), Permits: d.Granted}
			}
		})
	}
	calls.Wait()
	w.ops = append(w.ops, ops...)
}

// A hypervisor stops the machine of a process, with both of its clocks. Meanwhile the others put
// out a node that they do not reach, and take over what it has. The process still reaches the node.
// Its clocks tell of nothing when it goes on, the time of the node does: no call takes anything
// there.
func TestWhoStoodStillTakesNothingOfALostNode(t *testing.T) {
	for lost := range int64(4) {
		t.Run(fmt.Sprint("n", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStoppedWorld(t, 4, limittest.Wary)
				limit := shardlimit.Limit{Permits: 80, Per: 10 * time.Second, Shards: 4}
				p, q := limittest.Limiter(t, w.p, "l", limit), limittest.Limiter(t, w.q, "l", limit)
				limittest.Settled(t, q)
				w.call(3*time.Second, p, q)
				w.stop(time.Minute, func() {
					w.cut.Store(lost)
					w.call(45*time.Second, q)
				})
				for range 20 {
					w.crowd(p, 8)
					w.take(t, q, 20)
				}
				w.holds(t, limit)
				time.Sleep(2 * limit.Per)
				if d, err := p.Allow(context.Background()); err != nil || !d.Allowed {
					t.Errorf("it is served no more: %+v, %v", d, err)
				}
				w.p.Close()
				w.q.Close()
			})
		})
	}
}

// The same with a key of a family, without takeover: while the machine stood still, others moved
// the key to another node, and what its old node had of it was forgotten. No call creates it anew.
func TestWhoStoodStillBringsNoKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoppedWorld(t, 3)
		limit := shardlimit.Limit{Permits: 40, Per: 5 * time.Second}
		family := limittest.Family(t, w.q, "f", limit)
		theirs := limittest.Family(t, w.p, "f", limit)
		p, q := theirs.Limiter("k"), family.Limiter("k")
		w.call(time.Second, p, q)
		for range 10 { // so that it does not take what it finds for a loss of memory
			time.Sleep(limit.Per / 5)
			if _, err := theirs.Limiter("another").Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		home := limittest.Peek(t, q).Shards[0].Node
		w.stop(5*time.Minute, func() {
			list := limittest.Drained(w.nodes, func(i int) bool { return w.nodes[i].Name == home })
			mover := limittest.Fleet{Prefix: "b:", Punctual: true, Nodes: list}.Client(t)
			defer mover.Close()
			if err := limittest.Family(t, mover, "f", limit).Rebalance(t.Context()); err != nil {
				t.Error(err)
			}
			w.call(50*time.Second, q)
			time.Sleep(3 * time.Minute)
			w.call(50*time.Second, q)
		})
		if now := limittest.Peek(t, q).Shards[0].Node; now == home {
			t.Fatal("the key has not moved")
		}
		for range 5 {
			w.crowd(p, 8)
			w.take(t, q, 20)
		}
		w.holds(t, limit)
		time.Sleep(2 * limit.Per)
		if d, err := p.Allow(context.Background()); err != nil || !d.Allowed {
			t.Errorf("it is served no more: %+v, %v", d, err)
		}
		w.p.Close()
		w.q.Close()
	})
}
