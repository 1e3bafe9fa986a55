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
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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

// TestProcessesStartedDuringAnOutageShare: ten processes that never heard of each other
// admit no more than the limit in a window, as ten are expected. A process that has heard of fewer
// goes by those that are expected, too, and one that has heard of more by these.
func TestProcessesStartedDuringAnOutageShare(t *testing.T) {
	const permits, window = 100, time.Minute
	limit := shardlimit.Limit{Permits: permits, Per: window, Shards: 1}
	for expected, most := range map[int64]int64{0: 10 * permits, 10: permits, 30: 30, 1000: 10} {
		synctest.Test(t, func(t *testing.T) {
			f, granted := limittest.Away(), int64(0)
			for range 10 {
				l := f.Limiter(t, limit, limittest.OnOutage(shardlimit.FailLocal), expecting(expected))
				for range 3 * permits {
					d, err := l.Allow(t.Context())
					if err != nil || !d.Degraded || d.Allowed == (d.RetryAfter > 0) || d.RetryAfter > time.Second {
						t.Fatalf("%+v, %v", d, err)
					}
					granted += d.Granted
				}
				d, err := shardlimit.All(l.N(1)).Allow(t.Context())
				if err != nil || d.Allowed || d.RetryAfter > time.Second {
					t.Fatalf("a Set: %+v, %v", d, err)
				}
			}
			if granted != most {
				t.Errorf("%d expected: %d permits of %d, want %d", expected, granted, permits, most)
			}
		})
	}
}

// TestTheGreaterNumberOfProcessesCounts: those that are expected, or those that were heard of.
func TestTheGreaterNumberOfProcessesCounts(t *testing.T) {
	for expected, most := range map[int64]int64{0: 25, 2: 25, 10: 10} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			var l *shardlimit.Limiter
			for range 4 {
				l = f.Limiter(t,
					shardlimit.PerMinute(100), limittest.OnOutage(shardlimit.FailLocal), expecting(expected))
				limittest.Settled(t, l)
			}
			if got := limittest.LocalPermits(l); got != most {
				t.Errorf("%d expected, 4 heard of: a part of %d, want %d", expected, got, most)
			}
		})
	}
}

func expecting(n int64) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.Participants = n }
}

// Whatever the limit and the number of processes, each can enforce its part, which is no more than
// that of the limit, or one permit.
func TestEveryPartOfALimitCanBeEnforced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few, many := rapid.Int64Range(1, 2_000), rapid.Int64Range(1, shardlimit.MaxPermits)
		short, long := rapid.Int64Range(1_000, 1_000_000), rapid.Int64Range(1, 31*24)
		limit := shardlimit.Limit{
			Permits:   rapid.OneOf(few, many).Draw(t, "permits"),
			Per:       time.Duration(long.Draw(t, "hours")) * time.Hour,
			Algorithm: rapid.SampledFrom(limittest.Algorithms).Draw(t, "algorithm"),
		}
		if rapid.Bool().Draw(t, "a short window") {
			limit.Per = time.Duration(short.Draw(t, "microseconds")) * time.Microsecond
		}
		if limittest.Bursty(limit.Algorithm) {
			most := min(9.0*float64(shardlimit.MaxWindow)/float64(limit.Per)*float64(limit.Permits),
				shardlimit.MaxPermits)
			limit.Burst = int64(most * (1 - rapid.Float64Range(0, 1).Draw(t, "less burst")))
		}
		processes := rapid.OneOf(few, many).Draw(t, "processes")
		part, err := limittest.PartOf(limit, processes)
		if err != nil {
			t.Fatalf("%v, Burst %d, for %d: %v", limit, limit.Burst, processes, err)
		}
		if part.Permits > max(1, limit.Permits/processes) || part.Burst > max(1, limit.Burst/processes) ||
			processes == 1 && part != limit {
			t.Errorf("%v, Burst %d, for %d: %v, Burst %d", limit, limit.Burst, processes, part, part.Burst)
		}
	})
}

// Ten processes were given one Participant name. Where each enforces a part of the limit, the parts
// add up to no more than the limit.
func TestFailLocalCountsProcesses(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, fl limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1}
		var limiters []*shardlimit.Limiter
		for range 10 {
			limiters = append(limiters, limittest.Limiter(t, fl.Client(t, limittest.OnOutage(shardlimit.FailLocal),
				func(c *shardlimit.Config) { c.Participant = "web" }), "l", limit))
		}
		for range 40 {
			for _, l := range limiters {
				_, _ = l.Allow(t.Context())
			}
			time.Sleep(time.Second)
		}
		fl.Bubble[0].Down.Store(true)
		got := int64(0)
		for _, l := range limiters {
			d, _ := l.AllowUpTo(t.Context(), limit.Permits)
			got += d.Granted
		}
		if got > limit.Permits || got < limit.Permits/2 {
			t.Errorf("%d of %d permits", got, limit.Permits)
		}
	})
}
