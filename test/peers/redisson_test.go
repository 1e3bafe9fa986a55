package peers

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// What went wrong with Redisson's RRateLimiter, by its own issues or by a run of its script,
// must not go wrong here. Every test names the issue (of github.com/redisson/redisson), if there
// is one. What concerns keys, their state and their expiry stands in redisson_state_test.go, what
// concerns callers who wait in redisson_wait_test.go.

// PR #7060 (#6499): with keepState a limit lowered from 10 to 3 went on admitting 9.
func TestRedisson6499LoweredLimitHolds(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		const window = 300 * time.Millisecond
		limiters := f.Group(t, 2, "l", shardlimit.Limit{Permits: 10, Per: window, Shards: 1})
		var before, after history.Recorder
		var lowered atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		for _, l := range limiters {
			wg.Go(func() {
				old, young := before.Tally(), after.Tally()
				for ctx.Err() == nil {
					start := history.Now()
					d, err := l.Allow(context.Background())
					switch at := lowered.Load(); {
					case err != nil:
						t.Error(err)
						return
					case !d.Allowed:
					case at == 0 || start < at:
						old.Add(start, history.Now(), 1)
					default:
						young.Add(start, history.Now(), 1)
					}
					limittest.Pause(ctx, 2*time.Millisecond)
				}
			})
		}
		limittest.Pause(ctx, 3*window)
		small := shardlimit.Limit{Permits: 3, Per: window, Shards: 1}
		if err := limiters[0].SetLimit(t.Context(), small); err != nil {
			t.Error(err)
		}
		lowered.Store(history.Now())
		limittest.Pause(ctx, 5*window)
		limittest.AwaitThat(t, "something is admitted after the change", func() bool { return len(after.Ops()) > 0 })
		stop()
		wg.Wait()
		limittest.KeepsTo(t, small, after.Ops())
		limittest.KeepsTo(t, shardlimit.Limit{Permits: 10, Per: window}, before.Ops())
		for _, l := range limiters {
			if st := limittest.Peek(t, l); st.Remaining < 0 || st.Used > 3 {
				t.Errorf("%+v", st)
			}
		}
	})
}

// #3804 (the limit decays over hours): a reply that was lost made the client send the
// script again, which took twice and gave back once. A spend is never re-sent.
func TestRedisson3804LostRepliesCostNothing(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		f, post := f.BehindProxy(t)
		const window = 1500 * time.Millisecond
		l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(300*time.Millisecond)), "l",
			shardlimit.Limit{Permits: 3, Per: window})
		lost := int64(0)
		for range 2 {
			limittest.AwaitThat(t, "nothing is used", func() bool { return used(l) == 0 })
			limittest.ForgetDenials(l)
			post.Proxy.DropReplies(true)
			asked := int64(0) // once, unless the machine is so busy that a call is given up before it is sent
			limittest.AwaitThat(t, "a reply is lost", func() bool {
				asked++
				if d, err := l.Allow(t.Context()); err == nil {
					t.Fatalf("although no reply comes through: %+v", d)
				}
				return post.Proxy.Dropped() > lost
			})
			lost = post.Proxy.Dropped()
			post.Proxy.DropReplies(false)
			limittest.AwaitThat(t, "Redis answers", func() bool { return used(l) >= 0 })
			if n := used(l); n > asked {
				t.Errorf("one permit was asked for %d times, %d are used", asked, n)
			}
			limittest.AwaitThat(t, "the whole limit is there again", func() bool {
				d, err := l.AllowN(t.Context(), 3)
				return err == nil && d.Allowed
			})
		}
	})
}

// eavesdropper is a client that looks at what every script is given.
type eavesdropper struct {
	rueidis.Client
	heard func(argument string)
}

func (e *eavesdropper) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if words := cmd.Commands(); len(words) > 3 && (words[0] == "EVALSHA" || words[0] == "EVAL") {
		keys, _ := strconv.Atoi(words[2])
		for _, arg := range words[3+keys:] {
			e.heard(arg)
		}
	}
	return e.Client.Do(ctx, cmd)
}

// #3639 (more than the limit; the clocks were asked about): windows were measured with the clocks
// of the callers, so one that was a second ahead doubled the admissions. No script is told what
// time it is. (A refund names the shard's own time of the grant.)
func TestRedisson3639NoScriptIsGivenTheClientsTime(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(3))
		epoch := strconv.FormatInt(limittest.Peek(t, l).Epoch, 10) // comes from a clock, too: the node's
		var calls atomic.Int64
		numbers := regexp.MustCompile(`[0-9]+`) // several of them make up an argument
		f.Nodes = []shardlimit.Node{{Name: f.Nodes[0].Name, Client: &eavesdropper{f.Admin(t), func(arg string) {
			calls.Add(1)
			switch { // the deadline and the fence: the node's own time, see TestTheDeadlineOfACallIsTheNodesTime
			case len(arg) > 110 && arg[0] == ' ': // of take.lua
				arg = arg[:62] + arg[94:]
			case len(arg) > 72 && arg[0] <= '7':
				arg = arg[:17] + arg[33:]
			}
			for _, number := range numbers.FindAllString(arg, -1) {
				n, err := strconv.ParseFloat(number, 64)
				for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
					now := float64(time.Now().Unix()) * unit
					if err == nil && strings.TrimLeft(number, "0") != epoch && n > now-1e7*unit && n < now+1e7*unit {
						t.Errorf("a script was given %s in %q, which looks like the time", number, arg)
					}
				}
			}
		}}}}
		l = limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(3))
		for range 5 {
			if _, err := l.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
			limittest.ForgetDenials(l)
		}
		limittest.Peek(t, l)
		if calls.Load() == 0 {
			t.Error("no script was called")
		}
	})
}

// No issue: tryAcquire(-3) succeeded and raised what was free above the limit, tryAcquire(0) made
// an entry, more than 2^32 permits were cut off.
func TestRedissonOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(1<<33))
		for _, n := range []int64{-3, 0, -1 << 63} {
			for name, err := range map[string]error{
				"AllowN":    second(l.AllowN(t.Context(), n)),
				"AllowUpTo": second(l.AllowUpTo(t.Context(), n)),
				"WaitN":     l.WaitN(t.Context(), n),
			} {
				if !errors.Is(err, shardlimit.ErrInvalidPermits) {
					t.Errorf("%s(%d): %v", name, n, err)
				}
			}
		}
		if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 1<<33 {
			t.Errorf("%+v", st)
		}
		if d, err := l.AllowN(t.Context(), 1<<32+5); err != nil || d.Granted != 1<<32+5 || d.Remaining != 1<<32-5 {
			t.Errorf("more than 2^32: %+v, %v", d, err)
		}
	})
}

// #2072 (the first call was not counted), #5751 (entries were counted, not their permits), #5687
// and PR #5906 (of calls at the same instant some were lost): everything that is granted counts,
// for what it is.
func TestRedisson2072And5751EveryGrantCounts(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		const permits = 200
		limiters := f.Group(t, 4, "l", shardlimit.PerHour(permits))
		var granted atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, l := range limiters {
			for k := range 8 {
				wg.Go(func() {
					<-start
					for range 12 {
						d, err := l.AllowN(t.Context(), int64(1+(i+k)%3))
						if err != nil {
							t.Error(err)
							return
						}
						granted.Add(d.Granted)
					}
				})
			}
		}
		close(start)
		wg.Wait()
		st := limittest.Peek(t, limiters[0])
		if got := granted.Load(); got != st.Used || got > permits || st.Used+st.Remaining != permits {
			t.Errorf("%d were granted, %d are used, %d free of %d", got, st.Used, st.Remaining, permits)
		}
	})
}

// #2931 (too many at the edge of the window), #3639: no window holds more than the limit, wherever
// it begins.
func TestRedisson2931NoWindowHoldsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 20, Per: 100 * time.Millisecond}
		tr := limittest.NewTraffic(t)
		tr.Start(3, f.Group(t, 2, "l", limit)...)
		limittest.AwaitBusy(t, limit, &tr.Record)
		ops, err := tr.During(1200 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		limittest.KeepsTo(t, limit, ops)
	})
}

// #1870, #5098: PER_CLIENT limits were mixed up, and all of them lay on one node.
func TestRedisson1870EveryClientHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		for i, l := range f.Group(t, 5, "l", limittest.PerParticipant(4, time.Hour)) {
			if got := limittest.Grants(t, l); got != 4 {
				t.Errorf("client %d had %d permits, want 4", i, got)
			}
		}
	})
}

// #4421: one node had all the load of a limit. Here every node has its part of it.
func TestRedisson4421ALimitIsSpreadOverTheNodes(t *testing.T) {
	independents, _ := limittest.Independent(t, 4)
	for name, f := range map[string]limittest.Fleet{"redis": independents, "embedded": limittest.InProcess(t, 4)} {
		t.Run(name, func(t *testing.T) {
			l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerHour(4000))
			if d, err := l.AllowN(t.Context(), 4000); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			st := limittest.Peek(t, l)
			for _, n := range f.Nodes {
				if s := limittest.ShardOn(t, st, n.Name); s.Used != 1000 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
