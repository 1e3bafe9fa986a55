package promises

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestRedisMemoryDoesNotGrowWithTheLimit(t *testing.T) {
	t.Parallel()
	const w = time.Second
	server := redistest.Standalone(t)
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "solo", Redis: limittest.Unhurried(server.ClientOption())}},
		Prefix: redistest.Prefix(t)}
	c, watcher := f.Client(t), server.Client(t)
	sizes := []int64{1e2, 1e3, 1e4, 1e5, 1e6, 1e7}
	most := make([]int64, len(sizes))
	ctx, cancel := context.WithTimeout(t.Context(), 5*w/2)
	defer cancel()
	var wg sync.WaitGroup
	for _, permits := range sizes {
		l := limittest.Limiter(t, c, fmt.Sprint("load", permits, "."),
			shardlimit.Limit{Permits: permits, Per: w, Shards: 1})
		wg.Go(func() { // spreads the limit over the window, and uses all of it
			for ctx.Err() == nil {
				d, err := l.AllowUpTo(context.Background(), permits/500+1)
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed {
					time.Sleep(min(d.RetryAfter, 10*time.Millisecond)) // spares the processor
				}
			}
		})
	}
	for ctx.Err() == nil {
		for i, permits := range sizes {
			bytes := int64(0)
			for _, key := range limittest.KeysUnder(t, watcher, f.Prefix) {
				if strings.Contains(key, fmt.Sprint("load", permits, ".")) {
					usage := watcher.B().MemoryUsage().Key(key).Samples(0).Build()
					n, _ := watcher.Do(context.Background(), usage).AsInt64() // 0: it has expired just now
					bytes += n
				}
			}
			most[i] = max(most[i], bytes)
		}
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	t.Logf("bytes of one shard and its record, by limit: %v: %v", sizes, most)
	// About 165 entries are the most a shard ever has; a busy machine makes fewer.
	const bound = 24 << 10
	for i, bytes := range most {
		if bytes == 0 || bytes > bound {
			t.Errorf("%d permits need %d bytes, at most %d are expected", sizes[i], bytes, bound)
		}
	}
	if last := len(most) - 1; most[last] > 2*slices.Max(most[:last]) { // a string has up to twice the room it needs
		t.Errorf("it grows with the limit")
	}
}

func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 2)
	ctx := t.Context()
	limit := shardlimit.Limit{Permits: 100, Per: 300 * time.Millisecond, Shards: 4}
	expires := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		found := 0
		for _, s := range servers {
			c := s.Client(t)
			keys := limittest.KeysUnder(t, c, "")
			found += len(keys)
			for _, key := range keys {
				left, err := c.Do(ctx, c.B().Pttl().Key(key).Build()).AsInt64()
				if err != nil || left == -1 ||
					strings.Contains(key, "}l:") && left >= 0 && left < limit.Per.Milliseconds() {
					t.Errorf("after %s: %q lives %d ms, %v", call, key, left, err)
				}
				if !strings.HasPrefix(key, f.Prefix) {
					t.Errorf("after %s: %q has not our prefix", call, key)
				}
			}
		}
		if found == 0 && call != "Delete" {
			t.Errorf("after %s: no keys at all", call)
		}
	}
	c := f.Client(t)
	l, err := c.Limiter(ctx, "l", limit)
	expires("Limiter", err)
	expires("Peek of nothing", limittest.Err(l.Peek(ctx)))
	expires("Allow", limittest.Err(l.Allow(ctx)))
	for range 30 {
		_, err = l.Allow(ctx)
	}
	expires("many calls", err)
	d, err := l.AllowN(ctx, 60)
	expires("AllowN collected", err)
	expires("Settle", l.Settle(ctx, d, 0))
	expires("AllowUpTo", limittest.Err(l.AllowUpTo(ctx, 1000)))
	expires("a denial", limittest.Err(l.Allow(ctx)))
	expires("Wait", l.WaitN(ctx, 3))
	expires("Reset", l.Reset(ctx))
	expires("AllowN", limittest.Err(l.AllowN(ctx, 100)))
	for _, shards := range []int{16, 3} {
		limit.Shards = shards
		expires("SetLimit", l.SetLimit(ctx, limit))
		expires("AllowUpTo after SetLimit", limittest.Err(l.AllowUpTo(ctx, 10)))
		limittest.AwaitOneLayout(t, []*shardlimit.Limiter{l})
		expires("the end of SetLimit", nil)
	}
	other := f.Limiter(t, limit)
	expires("another process", limittest.Err(other.AllowUpTo(ctx, 10)))
	family, err := c.Family(ctx, "f", shardlimit.PerMinute(10)) // no key of it expires while a busy machine looks
	expires("Family", err)
	expires("a key", limittest.Err(family.Limiter("k").Allow(ctx)))
	expires("Family.SetLimit", family.SetLimit(ctx, shardlimit.PerMinute(5)))
	expires("a key after SetLimit", limittest.Err(family.Limiter("k").Allow(ctx)))
	expires("Delete", l.Delete(ctx))
}
