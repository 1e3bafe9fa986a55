package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// Sight is what a look at one shard found.
type Sight struct {
	script.PeekReply
	Lane     *Lane
	Received int64 // on the process' clock
	Err      error // why the shard did not answer
}

// Look peeks at shards at once. It returns what each says, in their order, and waits no longer than
// the timeout.
func Look(ctx context.Context, lanes []*Lane, timeout time.Duration) []Sight {
	found := make([]Sight, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			reply, err := l.Peek(ctx, timeout)
			found[i] = Sight{PeekReply: reply, Lane: l, Received: l.env.Clock.Now(), Err: err}
		})
	}
	wg.Wait()
	return found
}
