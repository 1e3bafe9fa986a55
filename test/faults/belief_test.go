package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// These tests are about what a process believes of a limit, and for how long: in a bubble, where a
// rest of hours takes no time.

// takings is what calls got in a bubble, for the checker.
type takings struct {
	begun time.Time
	mu    sync.Mutex
	ops   []history.Op
}

// call notes what a call gets. One that fails gets nothing.
func (l *takings) call(ask func() (shardlimit.Decision, error)) error {
	start := time.Since(l.begun)
	d, err := ask()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, history.Op{Start: int64(start), End: int64(time.Since(l.begun)), Permits: d.Granted})
	return err
}

// upTo has a limiter asked for up to n permits.
func (l *takings) upTo(lim *shardlimit.Limiter, n int64) error {
	return l.call(func() (shardlimit.Decision, error) { return lim.AllowUpTo(context.Background(), n) })
}

// A limit that nobody used for a while, however long, grants what it has to the first calls.
func TestTheFirstCallAfterARestIsGranted(t *testing.T) {
	for _, algorithm := range limittest.Algorithms {
		for i, shards := range []int{1, 4} {
			if !extent.Plays(2*int(algorithm) + 3*i) { // both numbers of shards, different algorithms
				continue
			}
			limittest.RunInBubble(t, fmt.Sprint(algorithm, shards), 2, func(t *testing.T, f limittest.Fleet) {
				limit := shardlimit.Limit{Permits: 100, Per: time.Second, Algorithm: algorithm, Shards: shards}
				l := f.Limiter(t, limit)
				for _, rest := range []time.Duration{0, 5 * time.Minute, 63 * time.Second, 2 * time.Hour,
					25 * time.Hour} {
					time.Sleep(rest)
					limittest.Served(t, l, 40)
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
				what := fmt.Sprint(name, slow, suspended, rest)
				limittest.RunInBubble(t, what, 2, func(t *testing.T, f limittest.Fleet) {
					ca := f.Client(t)
					a, b := limittest.Limiter(t, ca, "l", second), f.Limiter(t, second)
					all := takings{begun: time.Now()}
					limittest.Must(t, all.upTo(a, 10))
					time.Sleep(time.Second)
					limittest.Must(t, b.SetLimit(t.Context(), next))
					limittest.Settled(t, b)
					for until := time.Now().Add(rest); time.Now().Before(until); time.Sleep(rest / 20) {
						limittest.Must(t, all.upTo(b, 1))
					}
					if suspended {
						limittest.Suspend(ca, rest)
					}
					all.ops = nil
					f.Bubble[slow].Stuck.Store(int64(20 * time.Millisecond))
					var callers sync.WaitGroup
					for i := range 150 { // tenants: more than one batch has room for
						callers.Go(func() {
							for range 3 {
								_ = all.upTo(a.As(fmt.Sprint("tenant", i), 1), 10)
							}
						})
					}
					limittest.Must(t, all.upTo(b, 200))
					callers.Wait()
					if next.Algorithm == shardlimit.SlidingCounter {
						next.Permits *= 2 // it estimates the window before: two windows' worth is its bound
					}
					limittest.KeepsTo(t, next, all.ops)
				})
			}
		}
	}
}

// A process that holds permits ahead uses them no longer than it may: not after its machine was
// suspended, when timers stood still, too, and not when the shard that grants them tells of a
// layout without leases, while it cannot read the record.
func TestNoLeaseIsUsedTooLong(t *testing.T) {
	for _, suspended := range []bool{true, false} {
		limittest.RunInBubble(t, fmt.Sprint("suspended: ", suspended), 2, func(t *testing.T, f limittest.Fleet) {
			var cut atomic.Bool
			limit := shardlimit.Limit{Permits: 1000, Per: time.Second, Lease: time.Second, Shards: 1}
			ca, b := f.With(f.Nodes[0], f.CutBy(&cut).Nodes[1]).Client(t), f.Limiter(t, limit)
			a := limittest.Limiter(t, ca, "l", limit)
			if at := limittest.Peek(t, b).Shards[0].Node; at != "n0" || limittest.RecordNodes(ca)[0] != "n1" {
				t.Fatalf("the shard is on %s, records are on %s", at, limittest.RecordNodes(ca))
			}
			all := takings{begun: time.Now()}
			call := func(n int) {
				for range n {
					limittest.Must(t, all.call(func() (shardlimit.Decision, error) { return a.Allow(t.Context()) }))
				}
			}
			for range 3 { // it learns to hold many
				call(300)
				time.Sleep(2100 * time.Millisecond)
			}
			if suspended {
				call(1) // begins a lease
				limittest.HaltLease(a)
				time.Sleep(30 * time.Second)
				limittest.Suspend(ca, 30*time.Second)
			} else {
				cut.Store(true)
				limit.Lease = 0
				limittest.Must(t, b.SetLimit(t.Context(), limit))
				call(1)
				time.Sleep(950 * time.Millisecond)
			}
			call(300)
			time.Sleep(100 * time.Millisecond)
			limittest.Must(t, all.upTo(b, 1000))
			limittest.KeepsTo(t, limit, all.ops)
		})
	}
}

// paced returns two limiters of a limit of 40 an hour, of which the first is paced for more than
// five minutes, and what the other was granted.
func paced(t *testing.T) (a, b *shardlimit.Limiter, granted []shardlimit.Decision) {
	f := limittest.Bubbled(t, 1)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 1}
	a, b = f.Limiter(t, limit), f.Limiter(t, limit)
	for range 4000 {
		_, _ = a.Allow(t.Context())
		if d, _ := b.Allow(t.Context()); d.Allowed {
			granted = append(granted, d)
		}
		time.Sleep(3 * time.Second)
		if limittest.Paced(a) > 5*time.Minute {
			return a, b, granted
		}
	}
	t.Fatal("nobody was paced")
	return nil, nil, nil
}

// A participant that is paced for long hears of what makes room for it.
func TestAPacedParticipantHearsOfRoom(t *testing.T) {
	for name, c := range map[string]struct {
		room func(t *testing.T, b *shardlimit.Limiter, granted []shardlimit.Decision) error
		most time.Duration // until it is served
	}{
		"a limit that was raised": {func(t *testing.T, b *shardlimit.Limiter, _ []shardlimit.Decision) error {
			return b.SetLimit(t.Context(), shardlimit.Limit{Permits: 4000, Per: time.Hour, Shards: 1})
		}, 20 * time.Second},
		"a limit that was reset": {func(t *testing.T, b *shardlimit.Limiter, _ []shardlimit.Decision) error {
			return b.Reset(t.Context())
		}, time.Hour/16 + 2*time.Second},
		"refunds": {func(t *testing.T, b *shardlimit.Limiter, granted []shardlimit.Decision) error {
			for _, d := range granted {
				if err := b.Settle(t.Context(), d, 0); err != nil {
					return err
				}
			}
			return nil
		}, time.Hour/16 + 2*time.Second},
	} {
		for _, waits := range []bool{false, true} {
			if race.Enabled && !waits {
				continue // it asks again and again
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b, granted := paced(t)
					limittest.Must(t, c.room(t, b, granted))
					begun := time.Now()
					if waits {
						limittest.Must(t, a.Wait(t.Context()))
					}
					for !waits && !serves(t, a) && time.Since(begun) <= c.most {
						time.Sleep(time.Second)
					}
					if took := time.Since(begun); took > c.most {
						t.Errorf("waits %v: served after %s, want %s at the most", waits, took, c.most)
					}
				})
			})
		}
	}
}

// A key that expired while this machine was suspended was not lost by its server.
func TestAKeyThatExpiredInASleepIsServed(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		k := limittest.Family(t, c, "users", shardlimit.Limit{Permits: 5, Per: 30 * time.Second}).Limiter("k")
		time.Sleep(2 * time.Minute) // the server is up for long
		for _, rest := range []time.Duration{0, 10 * time.Minute} {
			time.Sleep(rest)
			limittest.Suspend(c, rest)
			limittest.MustGet(t, k, 1)
		}
	})
}
