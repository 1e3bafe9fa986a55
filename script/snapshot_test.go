package script

import (
	"context"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestAnOldSnapshotBringsNoShareBack: what a state holds beyond what the layout before left to the
// shard was given to others meanwhile. Only a floor brings it back; what is in use stays in use.
func TestAnOldSnapshotBringsNoShareBack(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) { bringsNoShareBack(t, a) })
	}
}

func bringsNoShareBack(t *testing.T, a Algorithm) {
	c := newClock(t)
	ctx, endpoint := context.Background(), NewEndpoint(miniClient(t, c.Miniredis))
	inUse := []int64{0, 3}
	if a == AlgorithmLeakyBucket {
		inUse = inUse[:1] // a queue keeps its pace until it is empty
	}
	for _, used := range inUse {
		ref := a.Keys(redistest.Prefix(t), "t", "limit")
		take := func(terms Terms, n int64) TakeReply {
			t.Helper()
			terms.Window, terms.Algorithm = time.Second, a
			p, err := terms.Proposal()
			if err != nil {
				t.Fatal(err)
			}
			request := &TakeRequest{Proposal: p}
			if n > 0 {
				request = ones(p, n)
			}
			reply, err := endpoint.Take(ctx, ref, request)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		take(Terms{Epoch: 1, Target: 10, Floor: 10}, used)
		// Under epoch 2 it had nothing, which the state does not tell.
		third := take(Terms{Epoch: 3, Target: 8, Held: 0, HeldKnown: true}, 0)
		if third.Share > used || third.Start != third.Share {
			t.Errorf("%d in use: adopted %+v", used, third)
		}
		if reply := take(Terms{Epoch: 3, Target: 8, Held: 0, HeldKnown: true}, 8); reply.Granted > 0 {
			t.Errorf("%d in use: %d granted before the share was raised", used, reply.Granted)
		}
		if reply := take(Terms{Epoch: 3, Target: 8, Floor: 8, Held: 0, HeldKnown: true}, 0); reply.Share != 8 {
			t.Errorf("%d in use: raised to %d", used, reply.Share)
		}
	}
}
