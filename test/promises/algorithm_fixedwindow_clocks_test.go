package promises

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
)

// A fixed window that moves from node to node sees twice its permits across an edge, as one that
// stays; where the nodes' clocks differ, and so their edges, the share that moved once more.
func TestAFixedWindowThatMovesBetweenClocks(t *testing.T) {
	for _, c := range []struct {
		apart time.Duration
		most  int64 // shares in one window's length
	}{{0, 2}, {100 * time.Millisecond, 3}} {
		t.Run(c.apart.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				race.OneProcessor(t)
				const permits = 35
				got := history.Busiest(time.Second, movedAround(t, permits, c.apart)).Permits
				if got > c.most*permits || got < permits {
					t.Errorf("%d permits in a window, want at most %d", got, c.most*permits)
				}
			})
		})
	}
}

// movedAround has a limit of permits a second used while it moves over three nodes whose clocks are
// so far apart.
func movedAround(t *testing.T, permits int64, apart time.Duration) (ops []history.Op) {
	f := limittest.Fleet{Prefix: "b:", Punctual: true}
	for i := range 3 {
		s := redissim.NewServer(func() time.Time { return time.Now().Add(apart * time.Duration(i)) })
		go s.Serve()
		defer s.Close()
		link := redissim.NewLink(s, func([]string) redissim.Fate {
			return redissim.Fate{There: time.Millisecond, Back: time.Millisecond}
		}, func() {})
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Client: link})
	}
	limit := shardlimit.Limit{Permits: permits, Per: time.Second, Shards: 1, Algorithm: shardlimit.FixedWindow}
	l := limittest.Limiter(t, f.Client(t), "l", limit)
	limittest.Settled(t, l)
	var movers []*shardlimit.Limiter // each to another node
	for to := range f.Nodes {
		movers = append(movers,
			limittest.Limiter(t, f.With(limittest.Drained(f.Nodes, func(i int) bool { return i != to })...).Client(t),
				"l", limit))
	}
	rng := rand.New(rand.NewPCG(1, 0))
	begun, moved := time.Now(), 0
	for next := time.Duration(0); moved < 60; {
		start := time.Since(begun)
		d, err := l.AllowUpTo(t.Context(), permits)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, history.Op{Start: int64(start), End: int64(time.Since(begun)), Permits: d.Granted})
		time.Sleep(time.Duration(rng.IntN(2))*400*time.Millisecond + 10*time.Millisecond)
		if time.Since(begun) < next {
			continue
		}
		next = time.Since(begun) + 3*time.Second + time.Duration(rng.IntN(1000))*time.Millisecond
		if err := movers[moved%3].Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		moved++
	}
	return ops
}
