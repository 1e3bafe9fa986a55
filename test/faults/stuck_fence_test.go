package faults

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
)

// A call of a limit with takeover that is stuck on its way acts as long as its process may rely on
// what it knew when it sent it, and does nothing after: by then others may have taken the node's
// share over.
func TestACallThatIsStuckDoesNothingLater(t *testing.T) {
	for _, c := range []struct {
		stuck time.Duration
		acts  bool
	}{{2 * time.Second, true}, {6 * time.Second, false}, {time.Minute, false}} {
		t.Run(c.stuck.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				race.OneProcessor(t)
				if used := usedByAStuckCall(t, c.stuck); (used > 0) != c.acts {
					t.Errorf("a call that was stuck for %v used %d permits", c.stuck, used)
				}
			})
		})
	}
}

func usedByAStuckCall(t *testing.T, stuck time.Duration) int64 {
	var late atomic.Int64 // more on the way there
	f := limittest.Fleet{Prefix: "b:", Punctual: true}
	for i := range 3 {
		s := redissim.NewServer(time.Now)
		go s.Serve()
		defer s.Close()
		link := redissim.NewLink(s, func(args []string) redissim.Fate {
			return redissim.Fate{There: time.Millisecond + time.Duration(late.Load()), Back: time.Millisecond}
		}, func() {})
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Client: link})
	}
	l := limittest.Limiter(t, f.Client(t, limittest.TakesOver), "l",
		shardlimit.Limit{Permits: 90, Per: 10 * time.Minute, Shards: 3})
	if d, err := l.AllowN(t.Context(), 70); err != nil || !d.Allowed { // every shard has state
		t.Fatalf("%+v, %v", d, err)
	}
	before := limittest.Peek(t, l).Used
	late.Store(int64(stuck))
	if d, err := l.Allow(limittest.Shortly(t, 200*time.Millisecond)); err == nil && d.Allowed {
		t.Fatalf("a call that is stuck was answered: %+v", d)
	}
	late.Store(0)
	time.Sleep(stuck)
	return limittest.Peek(t, l).Used - before
}
