package shardlimit

import (
	"context"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/script"
)

// outlook is what the shards of a limit have ahead of them, as one process
// heard it: any number of permits can be free together at a time that follows
// from it, and not before, unless some are given back.
type outlook struct {
	forecast.Outlook
	made     int64 // on the client's clock
	until    int64 // how long to believe it
	complete bool  // every shard that is taken to answer did
}

// forecast finds out when n permits will be free together, from the releases that every shard has
// ahead.
func (c *core) forecast(ctx context.Context, r *routes, n, since int64) time.Duration {
	o, _ := c.look(ctx, r, since)
	return c.await(r, o, n)
}

// await is how long it takes until n permits are free together. Who has not seen all of the shards
// does not know, and looks again after a while.
func (c *core) await(r *routes, o *outlook, n int64) time.Duration {
	wait := time.Duration(o.when(n, r.limit.Per) - o.made)
	if !o.complete {
		wait = min(wait, c.client.cfg.CallTimeout)
	}
	return wait
}

// look asks all shards at once what they have free and ahead, on behalf of a call that began at
// since. found is what each has free, in the order of the layout; 0 if it did not say. The outlook
// is remembered, and refuses calls, only if every shard said it: what is not seen may be free.
func (c *core) look(ctx context.Context, r *routes, since int64) (o *outlook, found []int64) {
	o = &outlook{complete: true}
	answered := false
	found = make([]int64, len(r.lanes))
	left := c.client.cfg.CallTimeout - time.Duration(c.client.now()-since)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, l := range r.lanes {
		if !l.Usable(c.client.now()) {
			continue
		}
		if left <= 0 {
			o.complete = false
			break
		}
		wg.Go(func() {
			peek, err := l.Peek(ctx, left)
			received := c.client.now()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.complete = false
				return
			}
			answered, found[i] = true, o.include(l, r, &peek, received)
		})
	}
	wg.Wait()
	o.Sort()
	o.made = c.client.now()
	o.until = o.made + int64(lane.ShutCap(r.limit.Per))
	if o.complete = o.complete && answered; o.complete {
		c.ahead.Store(o)
	}
	return o, found
}

// include adds what one shard says to the outlook, and returns what it has free.
func (o *outlook) include(l *lane.Lane, r *routes, peek *script.PeekReply, received int64) (free int64) {
	reopens(peek, r.layout)
	if free = peek.Free; peek.Status == script.Absent && r.layout.Settled {
		free = l.Most() // it begins with its share when it is first asked
	}
	o.Add(free, forecast.Releases(peek.Beside, peek.Closed, received, l.Room(peek)))
	return free
}

// when is the time at which n permits are free together. Permits that no shard
// which answered has are on shards that are away: those take a window.
func (o *outlook) when(n int64, window time.Duration) int64 {
	if at, ok := o.When(n); ok {
		return at
	}
	return o.made + int64(window)
}
