package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Under FailClosed each call tells of an outage, and those to shards which of them failed, and why:
// a server that is full answers, and callers read what it said.
func TestFailClosedReturnsErrUnavailable(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, fl limittest.Fleet) {
		l := fl.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		limittest.Settled(t, l)
		calls := limittest.Calls(l, 3, shardlimit.Decision{})
		tell := func(why string, names ...string) {
			for _, name := range names {
				var where *shardlimit.ShardError
				err := calls[name](t.Context())
				if text := fmt.Sprint(err); !errors.Is(err, shardlimit.ErrUnavailable) || !errors.As(err, &where) ||
					where.Limiter != "l" || where.Node == "" || !strings.Contains(text, why) ||
					why != "" && strings.Contains(text, "does not answer") {
					t.Errorf("%s does not tell which shard failed, or why: %v", name, err)
				}
			}
		}
		for _, n := range fl.Bubble {
			n.Redis.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
		}
		for range 3 { // with the first the breaker opens
			tell("OOM command not allowed", "Allow", "AllowN", "AllowUpTo", "Wait", "Reserve")
		}
		for _, n := range fl.Bubble {
			n.Down.Store(true)
		}
		tell("", "Peek", "Participants")
		for _, name := range []string{"SetLimit", "Delete"} {
			limittest.ErrorIs(t, calls[name](t.Context()), shardlimit.ErrUnavailable, name)
		}
	})
}

// A process that starts while no node answers goes by the outage policy, and declares its limit
// once they do. A limit that nobody has ever used has nothing to forget: that this process had to
// wait for Redis is no reason to shut it for a window.
func TestAProcessMayStartWhileRedisIsAway(t *testing.T) {
	for policy, want := range map[shardlimit.OutagePolicy]int64{shardlimit.FailClosed: 0, shardlimit.FailOpen: 20,
		shardlimit.FailLocal: 10} {
		limittest.RunInBubble(t, fmt.Sprint(policy), 2, func(t *testing.T, f limittest.Fleet) {
			for _, n := range f.Bubble {
				n.Down.Store(true)
			}
			l := f.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2}, limittest.OnOutage(policy),
				limittest.AfterLoss(shardlimit.Quarantine))
			if got := l.Limit(); got.Permits != 10 || got.Per != time.Minute {
				t.Errorf("before it is declared: %v", got)
			}
			allowed := int64(0)
			for range 20 {
				d, err := l.Allow(t.Context())
				if closed := policy == shardlimit.FailClosed; closed != errors.Is(err, shardlimit.ErrUnavailable) ||
					closed == d.Degraded {
					t.Fatalf("%+v, %v", d, err)
				}
				allowed += d.Granted
			}
			if allowed != want {
				t.Errorf("%d of 20 calls were allowed, want %d", allowed, want)
			}
			time.Sleep(10 * time.Second) // more than the second that uptimes are told in
			for _, n := range f.Bubble {
				n.Redis.Restart()
				n.Down.Store(false)
			}
			time.Sleep(10 * time.Second) // it is declared
			if d := limittest.MustGet(t, l, 10); d.Degraded {
				t.Errorf("%+v", d)
			}
			other := f.Limiter(t, shardlimit.PerSecond(1))
			if got := other.Limit(); got.Permits != 10 || got.Shards != 2 {
				t.Errorf("another process found %v", got)
			}
		})
	}
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
			// A message to a place of a record is waited for so long, and there is one in a second.
			c := f.Client(t, limittest.OnOutage(shardlimit.FailOpen), limittest.PatientFor(time.Second))
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
			calls := func(n int) (bytes int64, goroutines int) {
				var wg sync.WaitGroup
				for first := range 64 {
					wg.Go(func() {
						for i := first; i < n; i += 64 {
							d, err := l.Allow(t.Context())
							if i%2 == 0 {
								d, err = users.Limiter(strconv.Itoa(i % 5000)).Allow(t.Context())
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
			first, few := calls(extent.Fewer(20_000))
			last, many := calls(extent.Fewer(100_000))
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
// add up to no more than the limit, also where fewer processes are expected than were heard of.
func TestFailLocalCountsProcesses(t *testing.T) {
	for _, expected := range []int64{0, 2} {
		limittest.InBubble(t, 1, func(t *testing.T, fl limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 100, Per: time.Second, Shards: 1}
			limiters := fl.Group(t, 10, "l", limit, limittest.OnOutage(shardlimit.FailLocal), expecting(expected),
				func(c *shardlimit.Config) { c.Participant = "web" })
			use(t, 40*time.Second, limiters...)
			time.Sleep(limit.Per) // what they were granted counts no more
			fl.Bubble[0].Down.Store(true)
			got := int64(0)
			for _, l := range limiters {
				d, _ := l.AllowUpTo(t.Context(), limit.Permits)
				got += d.Granted
			}
			if got > limit.Permits || got < limit.Permits/2 {
				t.Errorf("%d expected: %d of %d permits", expected, got, limit.Permits)
			}
		})
	}
}

// outages are the columns of the table of what a worker does, with what it does when nobody
// answers.
var outages = map[shardlimit.OutagePolicy]string{
	shardlimit.FailClosed: "ends: unavailable", shardlimit.WaitOut: "waits",
	shardlimit.FailOpen: "goes on without a limit", shardlimit.FailLocal: "takes 3",
}

// A worker does what the table in docs/howto/batch-worker.md says, whether all, some or none of its
// nodes answer. It is one of four participants that share 12 permits.
func TestWhatAWorkerDoes(t *testing.T) {
	t.Parallel()
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		f, servers := limittest.Independent(t, 2)
		workersMeet(t, f, servers, func(s shardlimit.ShardState) int { return f.Index(s.Node) })
	})
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		f, c := limittest.Clustered(t, 0, redistest.Args("--cluster-require-full-coverage", "no"))
		workersMeet(t, f, c.Masters(), func(s shardlimit.ShardState) int { return s.Slot * 3 / 16384 })
	})
}

// workersMeet has workers meet all servers, all but the first, and none.
func workersMeet(t *testing.T, f limittest.Fleet, servers []*redistest.Server, at func(shardlimit.ShardState) int) {
	t.Helper()
	type meeting struct {
		what string
		l    *shardlimit.Limiter
		want string
	}
	var before, less, none []meeting
	for policy, outage := range outages {
		c := f.Client(t, limittest.OnOutage(policy), func(c *shardlimit.Config) { c.Participants = 4 })
		limit := shardlimit.Limit{Permits: 12, Per: time.Hour, Shards: len(servers)}
		spread := func(what string) *shardlimit.Limiter {
			return limittest.Limiter(t, c, fmt.Sprint(what, policy), limit)
		}
		before = append(before, meeting{"all", spread("all"), "takes 12"})
		none = append(none, meeting{"none", spread("none"), outage})
		l, share := spread("less"), 0
		for _, s := range limittest.Peek(t, l).Shards {
			if at(s) != 0 {
				share += int(s.Share)
			}
		}
		less = append(less, meeting{"the others", l, fmt.Sprint("takes ", share)})
		limit.Shards = 1
		for i := 0; ; i++ {
			if l = spread(fmt.Sprint("lone", i)); at(limittest.Peek(t, l).Shards[0]) == 0 {
				break
			}
		}
		less = append(less, meeting{"the others, its only node away", l, outage})
	}
	meet := func(all []meeting) {
		var wg sync.WaitGroup
		for _, m := range all {
			wg.Go(func() {
				if got := work(t, m.l); got != m.want {
					t.Errorf("%s, %s: %s, want %s", m.l.Name(), m.what, got, m.want)
				}
			})
		}
		wg.Wait()
	}
	meet(before)
	servers[0].Kill()
	meet(less)
	for _, s := range servers[1:] {
		s.Kill()
	}
	meet(none)
}

// work tells what becomes of one that waits for a permit again and again.
func work(t *testing.T, l *shardlimit.Limiter) string {
	t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := l.Wait(ctx)
		cancel()
		switch {
		case err == nil:
		case errors.Is(err, shardlimit.ErrWaitTooLong), errors.Is(err, context.DeadlineExceeded) && i > 0:
			return fmt.Sprint("takes ", i) // with a node away more might come in time
		case errors.Is(err, shardlimit.ErrUnavailable):
			return "ends: unavailable"
		case errors.Is(err, context.DeadlineExceeded):
			return "waits"
		default:
			return err.Error()
		}
	}
	return "goes on without a limit"
}
