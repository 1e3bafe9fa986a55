package faults

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
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
	// a record is read in the background
	asksAShard := slices.Contains([]string{"EVALSHA", "EVAL"}, cmd.Commands()[0]) &&
		!limittest.IsOfARecord(cmd.Commands()[3])
	if asksAShard && d.hang.Add(-1) >= 0 {
		<-d.release
		ctx = context.Background()
	}
	return d.Client.Do(ctx, cmd)
}

// A script call that does not come back, although its time is up, holds up
// neither the callers it carries nor those that come after it.
func TestALostCallDoesNotBlockItsShard(t *testing.T) {
	s := redistest.Standalone(t)
	d := &deaf{Client: s.Client(t), release: make(chan struct{})}
	d.hang.Store(-1 << 40)
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "solo", Client: d}}, Prefix: redistest.Prefix(t)}
	l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(200*time.Millisecond)), "l",
		shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 1})
	t.Cleanup(func() { close(d.release) }) // before the client is closed
	limittest.AwaitThat(t, "it is served in time",
		func() bool { a, err := l.Allow(t.Context()); return err == nil && a.Allowed })
	d.hang.Store(1)
	if a, err := l.Allow(t.Context()); err == nil {
		t.Fatalf("a call that hangs was answered: %+v", a)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		// One that comes while the call that hangs is still being given up may be denied with
		// those behind it, and a busy machine may let others be late.
		for range 20 {
			if _, err = l.Allow(context.Background()); err == nil {
				break
			}
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the next calls: %v", err)
		}
	case <-time.After(limittest.Patience):
		t.Fatal("the next call hangs too")
	}
}
