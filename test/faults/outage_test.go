package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestFailClosedReturnsErrUnavailable(t *testing.T) {
	t.Parallel()
	l, _ := limittest.WithoutNodes(t, shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
	calls := limittest.Calls(l, 3, shardlimit.Decision{})
	for _, name := range []string{"Allow", "AllowN", "AllowUpTo", "Wait", "Reserve", "Peek", "Participants"} {
		var where *shardlimit.ShardError
		if err := calls[name](t.Context()); !errors.Is(err, shardlimit.ErrUnavailable) || !errors.As(err, &where) ||
			where.Limiter != "l" || where.Node == "" {
			t.Errorf("%s does not tell which shard failed: %v", name, err)
		}
	}
	for _, name := range []string{"SetLimit", "Delete"} {
		limittest.ErrorIs(t, calls[name](t.Context()), shardlimit.ErrUnavailable, name)
	}
}

// An error that tells of an outage tells why: a server that is full answers, and callers read what
// it said.
func TestAnOutageTellsItsCause(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	l := fl.Limiter(t, shardlimit.PerSecond(5))
	limittest.Settled(t, l)
	posts[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
	for range 3 { // with the first the breaker opens
		for name, err := range map[string]error{
			"Allow": limittest.Err(l.Allow(t.Context())), "Wait": l.Wait(t.Context()),
			"Reserve": limittest.Err(l.Reserve(t.Context(), 1)),
		} {
			text := fmt.Sprint(err)
			if !errors.Is(err, shardlimit.ErrUnavailable) || !strings.Contains(text, "node n0") ||
				!strings.Contains(text, "OOM command not allowed") || strings.Contains(text, "does not answer") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Callers that were overtaken on their way must not make the local clock run
// fast: its windows would become shorter than the limit's.
func TestFailLocalNeverExceedsItsPart(t *testing.T) {
	t.Parallel()
	const permits, window = 50, 300 * time.Millisecond
	l, _ := limittest.WithoutNodes(t, shardlimit.Limit{Permits: permits, Per: window, Shards: 2},
		limittest.OnOutage(shardlimit.FailLocal))
	var granted atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	began := time.Now()
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				d, err := l.Allow(context.Background())
				if err != nil || !d.Degraded {
					t.Errorf("%+v, %v", d, err)
					return
				}
				granted.Add(d.Granted)
			}
		})
	}
	limittest.AwaitThat(t, "ten windows have passed",
		func() bool { return time.Since(began) > 10*window || t.Failed() })
	stop()
	wg.Wait()
	windows := int64(time.Since(began)/window) + 1
	if got := granted.Load(); got > windows*permits {
		t.Errorf("%d permits in %d windows of %d", got, windows, permits)
	}
}

func TestAProcessMayStartWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]shardlimit.OutagePolicy{
		"FailClosed": shardlimit.FailClosed,
		"FailOpen":   shardlimit.FailOpen,
		"FailLocal":  shardlimit.FailLocal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 2)
			for _, p := range posts {
				p.Server.Kill()
			}
			l := fl.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2}, limittest.OnOutage(policy))
			if got := l.Limit(); got.Permits != 10 || got.Per != time.Minute {
				t.Errorf("before it is declared: %v", got)
			}
			allowed := 0
			for range 20 {
				d, err := l.Allow(t.Context())
				if policy == shardlimit.FailClosed {
					if !errors.Is(err, shardlimit.ErrUnavailable) {
						t.Fatalf("%+v, %v", d, err)
					}
					continue
				}
				if err != nil || !d.Degraded {
					t.Fatalf("%+v, %v", d, err)
				}
				allowed += int(d.Granted)
			}
			if want := map[shardlimit.OutagePolicy]int{shardlimit.FailOpen: 20,
				shardlimit.FailLocal: 10}[policy]; allowed != want {
				t.Errorf("%d of 20 calls were allowed, want %d", allowed, want)
			}
			for _, p := range posts {
				p.Server.Restart()
			}
			limittest.AwaitThat(t, "it declares itself",
				func() bool { st, err := l.Peek(t.Context()); return err == nil && st.Settled })
			limittest.AwaitThat(t, "Redis decides", func() bool {
				d, err := l.Allow(t.Context())
				return err == nil && !d.Degraded
			})
			other := fl.Limiter(t, shardlimit.PerSecond(1))
			if got := other.Limit(); got.Permits != 10 || got.Shards != 2 {
				t.Errorf("another process found %v", got)
			}
		})
	}
}

// A limit that nobody has ever used has nothing to forget: that this process
// had to wait for Redis is no reason to shut it for a window.
func TestFirstUseDoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	posts[0].Server.Kill()
	l := fl.Limiter(t, shardlimit.PerMinute(10), limittest.AfterLoss(shardlimit.Quarantine))
	began := time.Now()
	limittest.AwaitThat(t, "it has waited for more than the second that uptimes are told in", func() bool {
		_, _ = l.Allow(t.Context())
		return time.Since(began) > 2500*time.Millisecond
	})
	posts[0].Server.Restart()
	limittest.Settled(t, l)
	limittest.MustGet(t, l, 10)
}

// While no node answers, whether it refuses or is silent, any number of calls costs neither memory
// nor goroutines: of a limit, and of the keys of a family.
func TestAnOutageCostsNeitherMemoryNorGoroutines(t *testing.T) {
	for name, down := range map[string]func(*limittest.ProxiedNode){
		"it refuses":   func(p *limittest.ProxiedNode) { p.Server.Kill() },
		"it is silent": func(p *limittest.ProxiedNode) { p.Server.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			f, posts := limittest.Proxied(t, 3)
			c := f.Client(t, func(c *shardlimit.Config) {
				// a message to a place of a record is waited for so long, and there is one in a
				// second
				c.OnOutage, c.CallTimeout = shardlimit.FailOpen, time.Second
			})
			limittest.RememberKeys(c, 1000)
			l, users := limittest.Limiter(t, c, "l", shardlimit.PerSecond(1000)),
				limittest.Family(t, c, "users", shardlimit.PerSecond(10))
			for _, p := range posts {
				down(p)
			}
			limittest.AwaitThat(t, "the breakers open", func() bool {
				d, err := l.Allow(t.Context())
				return err == nil && d.Degraded
			})
			calls := func(n int64) (bytes int64, goroutines int) {
				var next atomic.Int64
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						for i := next.Add(1); i <= n; i = next.Add(1) {
							d, err := l.Allow(t.Context())
							if i%2 == 0 {
								d, err = users.Limiter(strconv.FormatInt(i%5000, 10)).Allow(t.Context())
							}
							if err != nil || !d.Allowed {
								t.Errorf("%+v, %v", d, err)
								return
							}
						}
					})
				}
				wg.Wait()
				return limittest.HeapInUse(), runtime.NumGoroutine()
			}
			first, few := calls(int64(extent.Fewer(20_000)))
			last, many := calls(int64(extent.Fewer(100_000)))
			t.Logf("heap %d KB and then %d, goroutines %d and then %d", first>>10, last>>10, few, many)
			if last-first > 2<<20 { // 100 bytes for each of the calls more, under the race detector
				t.Errorf("the heap grew by %d bytes", last-first)
			}
			if many > few+24 { // what reads in the background at that moment
				t.Errorf("%d goroutines, then %d", few, many)
			}
			runtime.KeepAlive(users)
		})
	}
}
