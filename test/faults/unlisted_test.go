package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// lostUnseen returns four nodes with a limit, of which the last is lost while no process is there.
func lostUnseen(t *testing.T) (limittest.Fleet, shardlimit.Limit) {
	fl, nodes := limittest.BubbledNodes(t, 4)
	fl.Punctual = true
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	first := fl.Client(t, limittest.TakesOver)
	limittest.Settled(t, limittest.Limiter(t, first, "l", limit))
	first.Close()
	nodes[3].Down.Store(true)
	return fl, limit
}

// A node that no process lists any more, without having been drained, is lost. What it has of a
// limit is served by the others all the same.
func TestAnUnlistedNodeIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, limit := lostUnseen(t)
		l := limittest.Limiter(t, fl.With(fl.Nodes[:3]...).Client(t, limittest.TakesOver), "l", limit)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			_, _ = l.Allow(t.Context())
		}
		if st, err := l.Peek(t.Context()); limittest.SumOn(st, "n3") != limit.Permits {
			t.Errorf("after a minute the others have %d of %d: %v", limittest.SumOn(st, "n3"), limit.Permits, err)
		}
	})
}

// Every process lives for three seconds. A lost node is taken over although none of them has missed
// it for long.
func TestShortLivedProcessesTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, limit := lostUnseen(t)
		var last shardlimit.State
		for range 20 {
			c := fl.Client(t, limittest.TakesOver)
			l := limittest.Limiter(t, c, "l", limit)
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				_, _ = l.Allow(t.Context())
			}
			last, _ = l.Peek(t.Context())
			c.Close()
		}
		if sum := limittest.SumOn(last, "n3"); sum != limit.Permits {
			t.Errorf("after a minute the others have %d of %d", sum, limit.Permits)
		}
	})
}
