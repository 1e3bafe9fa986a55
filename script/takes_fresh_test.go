package script

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A server that has been up for longer than the window is not asked for INFO, which costs more than
// the take.
func TestAFreshShardCostsNoInfo(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	endpoint := NewEndpoint(client)
	for i := range 3 {
		s := taking(t, AlgorithmSlidingLog, fmt.Sprint(i))
		s.Request.Known, s.Request.Proposal = time.Hour, proposal(t, 1, 5, time.Second)
		before := calls(t, client, "info")
		if r, err := endpoint.Take(t.Context(), s.Ref, s.Request); err != nil || r.Status == Absent {
			t.Fatalf("%+v, %v", r, err)
		}
		if asked := calls(t, client, "info") - before - 1; i > 0 && asked > 0 { // one of calls itself
			t.Errorf("key %d: %d", i, asked)
		}
	}
}

// A server that answers TRYAGAIN has not executed the call. It is sent again, until it is executed
// once, or until it would take most of the time that the caller has.
func TestACallIsTriedAgainWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	endpoint, ref := NewEndpoint(miniClient(t, m)), ShardKeys("", "t", "limit")
	warm(t, endpoint)
	torn, calls := 3, 0
	m.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" && cmd != "EVAL" {
			return false
		}
		if calls++; calls > torn {
			return false
		}
		peer.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
		return true
	})
	p := proposal(t, 1, 10, time.Hour)
	if r, err := endpoint.Take(t.Context(), ref, ones(p, 1)); err != nil || r.Used != 1 {
		t.Errorf("%+v, %v after %d calls", r, err, calls)
	}
	if calls != torn+2 { // the first that creates nothing leaves it to the full take
		t.Errorf("%d calls", calls)
	}
	torn = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if _, err := endpoint.Take(ctx, ref, ones(p, 1)); !NotExecuted(err) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}
