package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/script"
)

// These tests are about what a process believes of a limit, and for how long: in a bubble, where a
// rest of hours takes no time.

// takings notes what calls got, for the checker.
type takings struct {
	begun time.Time
	ops   []history.Op
}

func (l *takings) take(t *testing.T, lim *shardlimit.Limiter, n int64) int64 {
	t.Helper()
	start := time.Since(l.begun)
	d, err := lim.AllowUpTo(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	l.ops = append(l.ops, history.Op{Start: int64(start), End: int64(time.Since(l.begun)), Permits: d.Granted})
	return d.Granted
}

// call is take for one permit, that may come from a lease.
func (l *takings) call(t *testing.T, lim *shardlimit.Limiter) {
	t.Helper()
	start := time.Since(l.begun)
	d, err := lim.Allow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l.ops = append(l.ops, history.Op{Start: int64(start), End: int64(time.Since(l.begun)), Permits: d.Granted})
}

func (l *takings) holds(t *testing.T, limit shardlimit.Limit) {
	t.Helper()
	if worst, ok := history.Check(limit.Per, limit.Permits, l.ops); !ok {
		t.Errorf("%d of %d permits in one window: %+v", worst.Permits, limit.Permits, worst)
	}
}

// A limit that nobody used for a while, however long, grants what it has to the first calls.
func TestTheFirstCallAfterARestIsGranted(t *testing.T) {
	for _, algorithm := range []shardlimit.Algorithm{
		shardlimit.SlidingLog, shardlimit.SlidingCounter, shardlimit.FixedWindow, shardlimit.TokenBucket,
		shardlimit.LeakyBucket,
	} {
		for i, shards := range []int{1, 4} {
			if !extent.Plays(2*int(algorithm) + 3*i) { // both numbers of shards, different algorithms
				continue
			}
			t.Run(fmt.Sprint(algorithm, shards), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := limittest.Bubbled(t, 2)
					limit := shardlimit.Limit{Permits: 100, Per: time.Second, Algorithm: algorithm, Shards: shards}
					c := f.Client(t)
					defer c.Close()
					l := limittest.Limiter(t, c, "l", limit)
					for _, rest := range []time.Duration{0, 5 * time.Minute, 63 * time.Second, 2 * time.Hour,
						25 * time.Hour} {
						time.Sleep(rest)
						if d, err := l.AllowN(t.Context(), 40); err != nil || !d.Allowed || d.Degraded {
							t.Fatalf("40 permits after a rest of %v: %+v %v", rest, d, err)
						}
						want := int64(60)
						if algorithm == shardlimit.LeakyBucket { // forty have turns one after the other
							time.Sleep(time.Second)
							want = 1
						}
						if d, err := l.AllowUpTo(t.Context(), want); err != nil || d.Granted != want {
							t.Fatalf("%d more after a rest of %v: %+v %v", want, rest, d, err)
						}
					}
				})
			})
		}
	}
}

// A process rests while the limit moves to other shards, or becomes another one, until the memory
// of its old shards has expired. Its old beliefs are worth nothing when it comes back, with how
// many callers so ever, and also if its machine was suspended so that hardly any time went by for
// it.
func TestWhoRestedTakesNothingOfOldShards(t *testing.T) {
	second := shardlimit.Limit{Permits: 200, Per: 100 * time.Millisecond, Shards: 2}
	one, counter := second, second
	one.Shards, counter.Algorithm = 1, shardlimit.SlidingCounter
	for name, next := range map[string]shardlimit.Limit{"fewer shards": one, "another algorithm": counter} {
		for slow, suspended := range []bool{false, true, false, true} {
			slow := slow / 2
			for i, rest := range []time.Duration{61200 * time.Millisecond, 10 * time.Minute, 30 * time.Hour} {
				if !extent.Plays(3*slow + i + 1) {
					continue
				}
				t.Run(fmt.Sprint(name, slow, suspended, rest), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f, nodes := limittest.BubbledNodes(t, 2)
						ca, cb := f.Client(t), f.Client(t)
						defer ca.Close()
						defer cb.Close()
						a, b := limittest.Limiter(t, ca, "l", second), limittest.Limiter(t, cb, "l", second)
						all := takings{begun: time.Now()}
						all.take(t, a, 10)
						time.Sleep(time.Second)
						if err := b.SetLimit(t.Context(), next); err != nil {
							t.Fatal(err)
						}
						limittest.Settled(t, b)
						for until := time.Now().Add(rest); time.Now().Before(until); time.Sleep(rest / 20) {
							all.take(t, b, 1)
						}
						if suspended {
							limittest.Suspend(ca, rest)
						}
						all.ops = nil
						nodes[slow].Stuck.Store(int64(20 * time.Millisecond))
						done := make(chan struct{})
						ops := make(chan history.Op, 1000)
						for i := range 150 { // tenants: more than one batch has room for
							go func() {
								defer func() { done <- struct{}{} }()
								l := a.As(fmt.Sprint("tenant", i), 1)
								for range 3 {
									start := int64(time.Since(all.begun))
									d, err := l.AllowUpTo(context.Background(), 10)
									if err == nil {
										ops <- history.Op{Start: start, End: int64(time.Since(all.begun)),
											Permits: d.Granted}
									}
								}
							}()
						}
						all.take(t, b, 200)
						for range 150 {
							<-done
						}
						close(ops)
						for op := range ops {
							all.ops = append(all.ops, op)
						}
						if next.Algorithm == shardlimit.SlidingLog {
							all.holds(t, next)
						} else { // a counter estimates the window before: two windows' worth is its bound
							next.Permits *= 2
							all.holds(t, next)
						}
					})
				})
			}
		}
	}
}

// A machine is suspended while its process holds a lease.
func TestNoLeaseOutlivesASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 1)
		limit := shardlimit.Limit{Permits: 1000, Per: time.Second, Lease: time.Second, Shards: 1}
		ca, cb := f.Client(t), f.Client(t)
		defer ca.Close()
		defer cb.Close()
		a, b := limittest.Limiter(t, ca, "l", limit), limittest.Limiter(t, cb, "l", limit)
		all := takings{begun: time.Now()}
		for range 3 {
			for range 300 {
				all.call(t, a)
			}
			time.Sleep(2100 * time.Millisecond)
		}
		all.call(t, a)         // begins a lease
		limittest.HaltLease(a) // timers stand still, too
		time.Sleep(30 * time.Second)
		limittest.Suspend(ca, 30*time.Second)
		all.take(t, b, 1000)
		for range 300 {
			all.call(t, a)
		}
		all.holds(t, limit)
	})
}

// A limit has leases no more, and a process that cannot read its record is told so by the shard
// that grants it permits. The shard logs these without the time of a lease: so the process begins
// none.
func TestNoLeaseIsOfALayoutThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 2)
		var cut atomic.Bool
		ca, cb := f.With(f.Nodes[0], f.CutBy(&cut).Nodes[1]).Client(t), f.Client(t)
		defer ca.Close()
		defer cb.Close()
		limit := shardlimit.Limit{Permits: 1000, Per: time.Second, Lease: time.Second, Shards: 1}
		a, b := limittest.Limiter(t, ca, "l", limit), limittest.Limiter(t, cb, "l", limit)
		if at := limittest.Peek(t, b).Shards[0].Node; at != "n0" || limittest.RecordNodes(ca)[0] != "n1" {
			t.Fatalf("the shard is on %s, records are on %s", at, limittest.RecordNodes(ca))
		}
		all := takings{begun: time.Now()}
		for range 3 { // it learns to hold many
			for range 300 {
				all.call(t, a)
			}
			time.Sleep(2100 * time.Millisecond)
		}
		cut.Store(true)
		limit.Lease = 0
		if err := b.SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		all.call(t, a)
		time.Sleep(950 * time.Millisecond)
		for range 300 {
			all.call(t, a)
		}
		time.Sleep(100 * time.Millisecond)
		all.take(t, b, 1000)
		all.holds(t, limit)
	})
}

// A call tells its deadline in the time of its node, however far that is from the client's.
func TestTheDeadlineOfACallIsTheNodesTime(t *testing.T) {
	for _, away := range []time.Duration{-20 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f, nodes := limittest.BubbledNodes(t, 2)
			nodes[1].Redis.Step(away)
			c := f.Client(t)
			defer c.Close()
			l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 40, Per: time.Minute, Shards: 4})
			if d, err := l.AllowUpTo(t.Context(), 40); err != nil || d.Granted != 40 {
				t.Errorf("a node is %v away: %+v, %v", away, d, err)
			}
		})
	}
}

// ice holds a process: what it was about to send, it sends when the ice melts.
type ice struct{ melts atomic.Pointer[chan struct{}] }

func (i *ice) freeze() {
	melts := make(chan struct{})
	i.melts.Store(&melts)
}

func (i *ice) melt() {
	if melts := i.melts.Swap(nil); melts != nil {
		close(*melts)
	}
}

func (i *ice) hold() {
	if melts := i.melts.Load(); melts != nil {
		<-*melts
	}
}

// A process leads a change and is frozen with its proposals under way, while another process
// replaces the change and the shards of the first one expire. When the process goes on, so does its
// driver: it sends what it had decided to send. No shard gets a share of the old layout.
func TestADriverThatWasFrozenBringsNoOldShareBack(t *testing.T) {
	const way = 5 * time.Millisecond
	for i := range 24 { // by when the process is frozen: from before the record is written until all is settled
		if !extent.Plays(i + 1) {
			continue
		}
		for _, suspended := range []bool{false, true} {
			if !extent.Full && suspended != (i%2 == 1) {
				continue
			}
			t.Run(fmt.Sprint(time.Duration(i)*way, suspended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { thawADriver(t, time.Duration(i)*way, way, suspended) })
			})
		}
	}
}

func thawADriver(t *testing.T, after, way time.Duration, suspended bool) {
	race.OneProcessor(t)
	const rest = 30 * time.Hour // a state lives for a day
	limit := shardlimit.Limit{Permits: 200, Per: 20 * time.Millisecond, Shards: 2}
	many, one := limit, limit
	many.Shards, one.Shards = 6, 1
	var servers []*redissim.Server
	for range 2 {
		s := redissim.NewServer(time.Now)
		s.Restart() // it has just been started
		go s.Serve()
		defer s.Close()
		servers = append(servers, s)
	}
	process := func(hold func()) (*shardlimit.Client, *shardlimit.Limiter) {
		f := limittest.Fleet{Prefix: "b:", Punctual: true}
		fate := func([]string) redissim.Fate { return redissim.Fate{There: way, Back: way} }
		for i, s := range servers {
			f.Nodes = append(f.Nodes,
				shardlimit.Node{Name: fmt.Sprint("n", i), Client: redissim.NewLink(s, fate, hold)})
		}
		c := f.Client(t)
		return c, limittest.Limiter(t, c, "l", limit)
	}
	var frozen ice
	ca, a := process(frozen.hold)
	cb, b := process(func() {})
	defer ca.Close()
	defer cb.Close()
	all := takings{begun: time.Now()}
	all.take(t, a, 10)
	time.Sleep(time.Second)

	var calls sync.WaitGroup
	defer calls.Wait()
	defer frozen.melt()
	calls.Go(func() { _ = a.SetLimit(t.Context(), many) })
	time.Sleep(after)
	frozen.freeze()
	time.Sleep(time.Second)
	if err := b.SetLimit(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	limittest.Settled(t, b)
	for range 20 {
		time.Sleep(rest / 20)
		all.take(t, b, 1)
	}
	before := sharesOf(t, servers)
	if len(before) != 1 {
		t.Fatalf("shares before the process goes on: %+v", before)
	}
	if suspended {
		limittest.Suspend(ca, rest)
	}
	all.ops = nil
	frozen.melt()
	asked := make(chan history.Op, 100)
	calls.Go(func() {
		defer close(asked)
		for range cap(asked) {
			start := time.Since(all.begun)
			if d, err := a.AllowUpTo(context.Background(), 200); err == nil {
				asked <- history.Op{Start: int64(start), End: int64(time.Since(all.begun)), Permits: d.Granted}
			}
		}
	})
	for range 100 {
		time.Sleep(way)
		sum, now := int64(0), sharesOf(t, servers)
		for _, s := range now {
			if sum += s.Share; sum > limit.Permits || s.Epoch < before[0].Epoch {
				t.Fatalf("shares before the process went on: %+v\nand now: %+v", before, now)
			}
		}
		all.take(t, b, 20)
	}
	for op := range asked {
		all.ops = append(all.ops, op)
	}
	all.holds(t, one)
}

// sharesOf are the states of the shards that have a share.
func sharesOf(t *testing.T, servers []*redissim.Server) (states []script.PeekReply) {
	t.Helper()
	for _, s := range servers {
		endpoint := script.NewEndpoint(s.Direct())
		for _, key := range s.Keys() {
			if !isHead(key) {
				continue
			}
			tag := key[strings.Index(key, "{")+1 : strings.Index(key, "}")]
			state, err := endpoint.Peek(t.Context(), script.ShardKeys("b:", tag, "n:l"))
			if err != nil {
				t.Fatal(err)
			}
			if state.Share > 0 {
				states = append(states, state)
			}
		}
	}
	return states
}

func isHead(key string) bool {
	return strings.HasSuffix(key, "}l:n:l") || strings.HasSuffix(key, ":l:n:l")
}
