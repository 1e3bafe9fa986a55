package faults

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// awaitAllShards waits until every shard of a limit in use has granted something
// in the running window.
func awaitAllShards(t *testing.T, l *shardlimit.Limiter) {
	t.Helper()
	limittest.AwaitThat(t, "every shard serves", func() bool {
		st, err := l.Peek(context.Background())
		return err == nil && !slices.ContainsFunc(st.Shards, func(s shardlimit.ShardState) bool {
			return s.Err != nil || s.Used == 0
		})
	})
}

// of is a fleet of one node.
func of(t *testing.T, o rueidis.ClientOption) limittest.Fleet {
	t.Helper()
	return limittest.Fleet{Nodes: []shardlimit.Node{{Name: "n", Redis: o}}, Prefix: redistest.Prefix(t)}
}

// alone is one that no test takes to be away because the machine is busy.
func alone(t *testing.T, o rueidis.ClientOption) limittest.Fleet {
	return of(t, limittest.Unhurried(o))
}

// serves reports whether a call is allowed, by what a node says.
func serves(t *testing.T, l *shardlimit.Limiter) bool {
	t.Helper()
	d, err := l.Allow(t.Context())
	return err == nil && d.Allowed && !d.Degraded
}

// use has limiters called ten times a second for so long, whatever comes of it.
func use(t *testing.T, long time.Duration, limiters ...*shardlimit.Limiter) {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, l := range limiters {
			_, _ = l.Allow(t.Context())
		}
	}
}

// callers are goroutines that call until they are stopped. Each call must be allowed.
type callers struct {
	calls, granted atomic.Int64
	stop           func()
}

// busy has so many goroutines call, each with the numbers of its calls, and rest after each.
func busy(t *testing.T, n int, rest time.Duration,
	call func(who int, i int64) (shardlimit.Decision, error)) *callers {
	t.Helper()
	c := &callers{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c.stop = func() { cancel(); all.Wait() }
	t.Cleanup(c.stop)
	for who := range n {
		all.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				d, err := call(who, i)
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				c.calls.Add(1)
				c.granted.Add(d.Granted)
				limittest.Pause(ctx, rest)
			}
		})
	}
	return c
}

// syncBuffer is a log that many write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) count(text string) int { return strings.Count(b.String(), text) }

// logged has clients write to a log, what is of that level or above it.
func logged(level slog.Level) (*syncBuffer, func(*shardlimit.Config)) {
	log := &syncBuffer{}
	handler := slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})
	return log, func(c *shardlimit.Config) { c.Logger = slog.New(handler) }
}

func everyKey(string) bool { return true }

func isRecord(key string) bool { return strings.Contains(key, "}:m:") }

// isLayout matches the keys of the records of limits and families.
func isLayout(key string) bool { return isRecord(key) && strings.Contains(key, ":limit:") }

// rewriteLayouts has the places of records on a node have accepted other layouts, with which what
// they hold ends. They are else as they were.
func rewriteLayouts(t *testing.T, redis *redissim.Server, other func(layout string) string) {
	t.Helper()
	keys := slices.DeleteFunc(redis.Keys(), func(key string) bool { return !isLayout(key) })
	if len(keys) == 0 {
		t.Fatal("no record was found")
	}
	for _, key := range keys {
		head, layout, found := strings.Cut(fmt.Sprint(redis.Do([]string{"GET", key})), "v{")
		if !found {
			t.Fatalf("no layout: %q", head)
		}
		redis.Do([]string{"SET", key, head + "v" + other("{"+layout)})
	}
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
