package shardlimit_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// deaf is a Redis client that takes no notice of contexts: its next calls of a
// script may hang until the test ends.
type deaf struct {
	rueidis.Client
	hang    atomic.Int64 // how many
	release chan struct{}
}

func (d *deaf) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if slices.Contains([]string{"EVALSHA", "EVAL"}, cmd.Commands()[0]) && d.hang.Add(-1) >= 0 {
		<-d.release
		ctx = context.Background()
	}
	return d.Client.Do(ctx, cmd)
}

// A script call that does not come back, although its time is up, holds up
// neither the callers it carries nor those that come after it.
func TestACallThatNeverComesBackDoesNotBlockItsShard(t *testing.T) {
	s := redistest.Standalone(t)
	d := &deaf{Client: s.Client(t), release: make(chan struct{})}
	d.hang.Store(-1 << 40)
	f := fleet{nodes: []shardlimit.Node{{Name: "solo", Client: d}}, prefix: redistest.Prefix(t)}
	l := limiter(t, f.client(t, patientFor(200*time.Millisecond)), "l", shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 1})
	t.Cleanup(func() { close(d.release) }) // before the client is closed
	if a, err := l.Allow(t.Context()); err != nil || !a.Allowed {
		t.Fatalf("%+v, %v", a, err)
	}
	d.hang.Store(1)
	if a, err := l.Allow(t.Context()); err == nil {
		t.Fatalf("a call that hangs was answered: %+v", a)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Allow(context.Background())
		if err != nil { // it came while the call that hangs was still being given up, and was turned away with those behind it
			_, err = l.Allow(context.Background())
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the next call: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the next call hangs too")
	}
}
