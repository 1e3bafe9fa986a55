package shardlimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
)

// distance is a Redis client whose script calls take a while of the bubble's time. While it is
// stalled they do not come back before their contexts end, and what they asked for is not done.
type distance struct {
	rueidis.Client
	takes   atomic.Int64 // nanoseconds
	stalled atomic.Bool
	calls   atomic.Int64
}

func (d *distance) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if name := cmd.Commands()[0]; name == "EVALSHA" || name == "EVAL" {
		d.calls.Add(1)
		if d.stalled.Load() {
			<-ctx.Done()
		} else {
			sleepOr(ctx, time.Duration(d.takes.Load()))
		}
	}
	return d.Client.Do(ctx, cmd)
}

// distant puts the nodes of a bubbled fleet so far away.
func (f fleet) distant(t *testing.T, takes time.Duration) (fleet, []*distance) {
	t.Helper()
	far := fleet{prefix: f.prefix, punctual: true}
	var all []*distance
	for _, n := range f.nodes {
		inner, err := rueidis.NewClient(n.Redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(inner.Close)
		d := &distance{Client: inner}
		d.takes.Store(int64(takes))
		all = append(all, d)
		t.Cleanup(func() { // calls that hang end, which takes the bubble's time
			d.stalled.Store(false)
			time.Sleep(2 * time.Second)
		})
		far.nodes = append(far.nodes, shardlimit.Node{Name: n.Name, Client: d})
	}
	return far, all
}
