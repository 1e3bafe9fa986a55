package waiting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// mustHave opens slots.
func mustHave(tb testing.TB, c *shardlimit.Client, name string, n int64, maxHold time.Duration) *shardlimit.Slots {
	tb.Helper()
	s, err := c.Slots(context.Background(), name, n, maxHold)
	limittest.Must(tb, err)
	return s
}

// crowd is callers of many processes that want permits or slots all the time, and give each back.
type crowd struct {
	held, most atomic.Int64 // now, and at the most
	begun      time.Time
	busy       atomic.Int64   // nanoseconds for which they were held since
	served     []atomic.Int64 // how many each process got since
	wg         sync.WaitGroup
}

func (c *crowd) enter() {
	now := c.held.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
}

func (c *crowd) leave() { c.held.Add(-1) }

// join has callers of another process acquire and release, after hold on average, until ctx ends.
func (c *crowd) join(ctx context.Context, process, callers int, hold time.Duration,
	acquire func() (release func() error, err error)) {
	for range callers {
		c.wg.Go(func() {
			for {
				release, err := acquire()
				if err != nil {
					return
				}
				c.enter()
				got := time.Now()
				limittest.Pause(ctx, rand.N(2*hold))
				if from := max(0, c.begun.Sub(got)); ctx.Err() == nil && time.Since(got) > from {
					c.busy.Add(int64(time.Since(got) - from))
					c.served[process].Add(1)
				}
				c.leave()
				_ = release()
			}
		})
	}
}

// Ten processes that want four each of twenty slots, or of twenty permits that come back early,
// have two each all the time, and hardly any is unused.
func TestPermitsThatComeBackEarlyAreShared(t *testing.T) {
	const n, processes = 20, 10
	for name, c := range map[string]struct {
		hold, settles, measured time.Duration
		use, part               float64 // at least: of all there is, and what one process has of the mean
		open                    func(context.Context, *testing.T, limittest.Fleet) func() (func() error, error)
	}{
		"slots": {300 * time.Millisecond, 20 * time.Second, time.Duration(extent.Fewer(60)) * time.Second, 0.97, 0.9,
			func(ctx context.Context, t *testing.T, f limittest.Fleet) func() (func() error, error) {
				s := mustHave(t, f.Client(t), "s", n, 15*time.Minute)
				return func() (func() error, error) {
					slot, err := s.Acquire(ctx)
					return func() error { return slot.Release(ctx) }, err
				}
			}},
		"permits": {time.Second, time.Minute, 2 * time.Minute, 0.85, 0.3, // seen: a use of 0.90 to 0.97
			func(ctx context.Context, t *testing.T, f limittest.Fleet) func() (func() error, error) {
				l := f.Limiter(t, shardlimit.PerMinute(n))
				return func() (func() error, error) {
					d, err := l.Acquire(ctx, 1)
					return func() error { return l.Settle(ctx, d, 0) }, err
				}
			}},
	} {
		if race.Enabled && name == "permits" {
			continue // the detector finds the same
		}
		limittest.RunInBubble(t, name, 1, func(t *testing.T, f limittest.Fleet) {
			ctx, cancel := context.WithTimeout(t.Context(), c.settles+c.measured)
			defer cancel()
			all := &crowd{begun: time.Now().Add(c.settles), served: make([]atomic.Int64, processes)}
			for i := range processes {
				all.join(ctx, i, 4, c.hold, c.open(ctx, t, f))
			}
			all.wg.Wait()
			sum, least := int64(0), int64(1<<62)
			for i := range all.served {
				sum, least = sum+all.served[i].Load(), min(least, all.served[i].Load())
			}
			use, part := float64(all.busy.Load())/float64(n*c.measured), float64(least*processes)/float64(sum)
			t.Logf("use %.3f, least %.3f of the mean", use, part)
			if all.most.Load() > n || !race.Enabled && (use < c.use || part < c.part) { // of few rounds they say little
				t.Errorf("somebody starves, or some are unused, or too many: %d were held at once", all.most.Load())
			}
		})
	}
}

// A slot that is never released frees itself after maxHold, and not before. Extend keeps it for as
// long from then on, though no other is free, and only while it is held.
func TestExtend(t *testing.T) {
	for extended := range int64(4) {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			const maxHold = 10 * time.Second
			s, other := mustHave(t, f.Client(t), "s", 2, maxHold), mustHave(t, f.Client(t), "s", 2, maxHold)
			first, last := mustAcquire(t, s), mustAcquire(t, s)
			begun := time.Now()
			var waits sync.WaitGroup
			for _, from := range []time.Duration{maxHold, maxHold + time.Duration(extended)*(maxHold-time.Second)} {
				waits.Go(func() {
					got := mustAcquire(t, other)
					// A process that has its part looks twice, 250 ms apart.
					if took := time.Since(begun); took < from || took > from+600*time.Millisecond {
						t.Errorf("extended %d times: free after %s, want %s", extended, took, from)
					}
					for ; time.Since(begun) < time.Minute; time.Sleep(maxHold / 2) {
						limittest.ErrorIs(t, got.Extend(t.Context()), nil)
					}
				})
				time.Sleep(time.Millisecond) // in this order
			}
			for range extended {
				time.Sleep(maxHold - time.Second - time.Since(begun)%(maxHold-time.Second))
				if err := last.Extend(t.Context()); err != nil || time.Until(last.Until()) != maxHold {
					t.Error(last.Until(), err)
				}
			}
			waits.Wait()
			for _, slot := range []*shardlimit.Slot{first, last} {
				for range 2 {
					limittest.ErrorIs(t, slot.Extend(t.Context()), shardlimit.ErrSlotLost)
					limittest.Must(t, slot.Release(t.Context()))
				}
			}
		})
	}
}

// A slot that is extended goes along when its key moves to another node. What stayed behind would
// be forgotten in the end, and one more would be held. If its process cannot hear where the key is,
// the slot ends.
func TestAnExtendedSlotMovesWithItsKey(t *testing.T) {
	for name, deaf := range map[string]bool{"it hears": false, "it does not hear": true} {
		limittest.RunInBubble(t, name, 2, func(t *testing.T, f limittest.Fleet) {
			const n, maxHold = 2, time.Second
			var cuts [2]atomic.Bool
			c := f.With(f.CutBy(&cuts[0]).Nodes[0], f.CutBy(&cuts[1]).Nodes[1]).Client(t)
			slot := mustAcquire(t, mustHave(t, c, "s", n, maxHold))
			family := familyOf(t, c, "s")
			at := f.Index(limittest.Peek(t, family.Limiter("slots")).Shards[0].Node)
			cuts[1-at].Store(deaf)
			mover := f.With(limittest.Drained(f.Nodes, func(i int) bool { return i == at })...).Client(t)
			others := mustHave(t, mover, "s", n, maxHold)
			limittest.Must(t, mover.Rebalance(t.Context()))
			extendWhileOthersHold(t, slot, others, n, maxHold, deaf)
			if used := limittest.Peek(t, family.Limiter("slots")).Used; deaf && used > 0 {
				t.Errorf("%d in use where the key was", used)
			}
		})
	}
}

// extendWhileOthersHold extends a slot for half a minute, while others take as many of n as they
// can get. The slot may end.
func extendWhileOthersHold(t *testing.T, slot *shardlimit.Slot, others *shardlimit.Slots, n int,
	maxHold time.Duration, ends bool) {
	had := 0
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(maxHold / 4) {
		if err := slot.Extend(t.Context()); err != nil && !ends {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
		var held []*shardlimit.Slot
		for range n {
			ctx, cancel := context.WithTimeout(t.Context(), maxHold/8)
			if s, err := others.Acquire(ctx); err == nil {
				held = append(held, s)
			}
			cancel()
		}
		if had += len(held); len(held) >= n && time.Now().Before(slot.Until()) {
			t.Fatalf("%d of %d are held after %s", len(held)+1, n, time.Since(begun))
		}
		for _, s := range held {
			limittest.Must(t, s.Release(t.Context()))
		}
	}
	if had < 50 {
		t.Errorf("the others had %d", had)
	}
}

// A node that stalls in the middle of an Extend holds it up for a call timeout. The slot is held on
// unless it was lost meanwhile.
func TestAnExtendEndsInTime(t *testing.T) {
	ends := map[time.Duration]error{200 * time.Millisecond: shardlimit.ErrSlotLost, time.Minute: nil}
	for maxHold, want := range ends {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			far, nodes := f.Distant(t, 10*time.Millisecond)
			slot := mustAcquire(t, mustHave(t, far.Client(t), "s", 1, maxHold))
			time.Sleep(150 * time.Millisecond)
			begun := time.Now()
			time.AfterFunc(5*time.Millisecond, func() { nodes[0].Stalled.Store(true) })
			err := slot.Extend(t.Context())
			if took := time.Since(begun); !errors.Is(err, want) || took > 110*time.Millisecond {
				t.Errorf("after %s: %v", took, err)
			}
			if want == nil && !slot.Until().Equal(begun.Add(maxHold)) {
				t.Error("until ", slot.Until().Sub(begun))
			}
			begun = time.Now()
			if err := slot.Extend(t.Context()); want != nil && (!errors.Is(err, want) || time.Since(begun) > 0) {
				t.Errorf("once lost, after %s: %v", time.Since(begun), err)
			}
		})
	}
}

// A slot whose release failed is held no more. It is free once it is released again, also if the
// reply was all that was lost.
func TestAReleaseThatFailsIsTriedAgain(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		s := mustHave(t, c, "s", 1, time.Hour)
		family := familyOf(t, c, "s")
		ended, end := context.WithCancel(t.Context())
		end()
		for _, done := range []bool{false, true} {
			slot := mustAcquire(t, s)
			f.Bubble[0].Down.Store(!done)
			if done {
				f.Bubble[0].Stuck.Store(int64(300 * time.Millisecond))
			}
			begun := time.Now()
			err := slot.Release(ended)
			took, failed := time.Since(begun), (*shardlimit.ShardError)(nil)
			if !errors.As(err, &failed) || took > 110*time.Millisecond {
				t.Errorf("after %s: %v", took, err)
			}
			limittest.ErrorIs(t, slot.Extend(t.Context()), shardlimit.ErrSlotLost, "extended")
			f.Bubble[0].Down.Store(false)
			f.Bubble[0].Stuck.Store(0)
			limittest.AwaitThat(t, "it is released", func() bool { return slot.Release(ended) == nil })
			limittest.Uses(t, family.Limiter("slots"), 0)
			time.Sleep(time.Minute)
			calls := f.Bubble[0].Calls.Load()
			if err := slot.Release(ended); err != nil || f.Bubble[0].Calls.Load() != calls {
				t.Errorf("once free: %v, %d calls", err, f.Bubble[0].Calls.Load()-calls)
			}
		}
		slot, other := mustAcquire(t, s), mustAcquire(t, mustHave(t, c, "other", 1, time.Hour))
		f.Bubble[0].Down.Store(true)
		if err := slot.Release(ended); err == nil {
			t.Error("released without a node")
		}
		f.Bubble[0].Down.Store(false)
		time.Sleep(31 * time.Second)
		limittest.ErrorIs(t, slot.Release(ended), shardlimit.ErrSlotLost, "half a minute later")
		c.Close()
		limittest.ErrorIs(t, other.Extend(t.Context()), shardlimit.ErrClosed, "Extend")
		limittest.ErrorIs(t, other.Release(t.Context()), shardlimit.ErrClosed, "Release")
	})
}

// Who holds a slot hears that maxHold was made shorter, and has its slot until others can have it.
// A longer one counts from the next Extend on.
func TestAShorterHoldIsHeardByWhoHolds(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c, other := f.Client(t), f.Client(t)
		slot, others := mustAcquire(t, mustHave(t, c, "s", 1, time.Hour)), mustHave(t, other, "s", 1, time.Hour)
		begun := time.Now()
		family := familyOf(t, other, "s")
		set := func(maxHold time.Duration) {
			time.Sleep(10 * time.Second)
			limit := family.Limit()
			limit.Per = maxHold
			limittest.Must(t, family.SetLimit(t.Context(), limit))
			slot.Until() // has it looked up
			time.Sleep(2 * time.Second)
		}
		set(time.Minute)
		if held := slot.Until().Sub(begun); held != time.Minute {
			t.Errorf("held for %s", held)
		}
		set(5 * time.Minute)
		if held := slot.Until().Sub(begun); held != time.Minute {
			t.Errorf("held for %s", held)
		}
		set(time.Minute)
		end := slot.Until()
		mustAcquire(t, others)
		if late := time.Since(end); late < 0 || late > 300*time.Millisecond {
			t.Errorf("others have it %s after its end", late)
		}
		limittest.ErrorIs(t, slot.Extend(t.Context()), shardlimit.ErrSlotLost)
	})
}

// What is no slots cannot be opened as such.
func TestAnotherFamilyIsNoSlots(t *testing.T) {
	c := limittest.InProcess(t, 1).Client(t)
	for name, limit := range map[string]shardlimit.Limit{
		"bucket": {Permits: 2, Per: time.Minute, Algorithm: shardlimit.TokenBucket},
		"own":    {Permits: 2, Per: time.Minute, Scope: shardlimit.PerParticipant},
	} {
		limittest.Family(t, c, name, limit)
		err := limittest.Err(c.Slots(t.Context(), name, 2, time.Minute))
		limittest.ErrorIs(t, err, shardlimit.ErrInvalidLimit, name)
	}
}

// A slot that was granted to a caller whose context has ended is free again at once, by itself or
// handed to who waits behind.
func TestASlotThatNobodyTakesIsFree(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		f.Bubble[0].Stuck.Store(int64(10 * time.Millisecond))
		c := f.Client(t)
		s := mustHave(t, c, "s", 1, time.Hour)
		family := familyOf(t, c, "s")
		left := 0
		for after := time.Duration(0); after < 60*time.Millisecond; after += time.Millisecond {
			for _, taken := range []bool{false, true} {
				if taken {
					first := mustAcquire(t, s)
					time.AfterFunc(15*time.Millisecond, func() { limittest.Must(t, first.Release(t.Context())) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), after)
				slot, err := s.Acquire(ctx)
				cancel()
				if err == nil {
					limittest.Must(t, slot.Release(t.Context()))
				} else {
					left++
				}
				time.Sleep(time.Second)
				limittest.Uses(t, family.Limiter("slots"), 0)
			}
		}
		if left < 10 || left > 110 {
			t.Errorf("%d left", left)
		}
	})
}

// A slot that the outage policy let pass is asked for when it is extended after the outage. It is
// lost if none is free then.
func TestASlotOfAnOutageIsAskedForAfterIt(t *testing.T) {
	for _, policy := range []shardlimit.OutagePolicy{shardlimit.FailOpen, shardlimit.FailLocal} {
		for held := range 3 {
			limittest.RunInBubble(t, fmt.Sprint(policy, held), 1, func(t *testing.T, f limittest.Fleet) {
				var cut atomic.Bool
				const n, maxHold = 2, 20 * time.Second
				c := f.CutBy(&cut).Client(t, limittest.OnOutage(policy))
				s, others := mustHave(t, c, "s", n, maxHold), mustHave(t, f.Client(t), "s", n, maxHold)
				cut.Store(true)
				slot := mustAcquire(t, s)
				limittest.Must(t, mustAcquire(t, s).Release(t.Context())) // FailLocal has room for two
				gone := mustAcquire(t, s)
				time.Sleep(maxHold / 2)
				if err := slot.Extend(t.Context()); err != nil || time.Until(slot.Until()) < maxHold-time.Second {
					t.Fatal("in the outage: ", slot.Until(), err)
				}
				for range held {
					mustAcquire(t, others)
				}
				cut.Store(false)
				time.Sleep(5 * time.Second)
				err := slot.Extend(t.Context())
				if free := held < n; free != (err == nil) || !free && !errors.Is(err, shardlimit.ErrSlotLost) {
					t.Errorf("%d of %d held elsewhere: %v", held, n, err)
				}
				family := familyOf(t, c, "s")
				limittest.Uses(t, family.Limiter("slots"), int64(min(held+1, n)))
				limittest.Must(t, errors.Join(slot.Release(t.Context()), slot.Release(t.Context())))
				limittest.Uses(t, family.Limiter("slots"), int64(held))
				time.Sleep(maxHold)
				limittest.ErrorIs(t, gone.Extend(t.Context()), shardlimit.ErrSlotLost, "after maxHold")
			})
		}
	}
}

// A slot whose node has lost its memory cannot be extended: somebody else may have it. Nor can one
// whose machine was suspended for maxHold, and its process knows that.
func TestASlotThatWasForgottenIsLost(t *testing.T) {
	for _, policy := range []shardlimit.LossPolicy{shardlimit.Quarantine, shardlimit.Resume} {
		for _, suspended := range []bool{true, false} {
			limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
				c := f.Client(t, limittest.AfterLoss(policy))
				slot := mustAcquire(t, mustHave(t, c, "s", 2, time.Minute))
				limittest.Must(t, slot.Extend(t.Context()))
				if suspended {
					time.Sleep(time.Minute)
					limittest.Suspend(c, time.Minute)
				} else {
					time.Sleep(10 * time.Second) // else nobody takes it for a loss
					f.Bubble[0].Redis.Flush()
				}
				limittest.ErrorIs(t, slot.Extend(t.Context()), shardlimit.ErrSlotLost, policy, suspended)
				if suspended && slot.Until().After(time.Now()) {
					t.Error(slot.Until())
				}
				limittest.Uses(t, familyOf(t, c, "s").Limiter("slots"), 0)
				limittest.Must(t, slot.Release(t.Context()))
			})
		}
	}
}

// familyOf is the family that keeps slots.
func familyOf(tb testing.TB, c *shardlimit.Client, name string) *shardlimit.Family {
	tb.Helper()
	f, err := c.OpenFamily(context.Background(), name)
	limittest.Must(tb, err)
	return f
}

// mustAcquire gets a slot.
func mustAcquire(tb testing.TB, s *shardlimit.Slots) *shardlimit.Slot {
	tb.Helper()
	slot, err := s.Acquire(context.Background())
	limittest.Must(tb, err)
	return slot
}

// Never more slots are held than there are: n is lowered, a process ends that releases nothing, and
// the node is lost. Then the others serve them.
func TestNeverTooManySlots(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		const n, lowered, maxHold = 6, 3, time.Second
		var all crowd
		var served atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		process := func(dies bool) *shardlimit.Client {
			client := f.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary)
			s := mustHave(t, client, "s", n, maxHold)
			for range 3 {
				all.wg.Go(func() {
					for ctx.Err() == nil {
						slot, err := s.Acquire(ctx)
						if errors.Is(err, shardlimit.ErrClosed) {
							return
						} else if err != nil {
							limittest.Pause(ctx, 20*time.Millisecond)
							continue
						}
						all.enter()
						served.Add(1)
						if dies { // nobody releases it
							time.AfterFunc(time.Until(slot.Until()), all.leave)
							continue
						}
						time.Sleep(rand.N(60 * time.Millisecond))
						if slot.Extend(ctx) == nil {
							time.Sleep(rand.N(60 * time.Millisecond))
						}
						all.leave()
						_ = slot.Release(ctx)
					}
				})
			}
			return client
		}
		first, _, _ := process(false), process(false), process(false)
		time.Sleep(time.Second)
		dying := process(true)
		time.Sleep(maxHold / 2)
		dying.Close()
		family := familyOf(t, first, "s")
		limit := family.Limit()
		limit.Permits = lowered
		limittest.Must(t, family.SetLimit(t.Context(), limit))
		time.Sleep(2*time.Second + maxHold) // until all have heard of it
		whole := all.most.Swap(0)
		time.Sleep(2 * maxHold)
		home := limittest.Peek(t, family.Limiter("slots")).Shards[0].Node
		f.Bubble[f.Index(home)].Down.Store(true)
		time.Sleep(limittest.TakenOverWithin / 10)
		before := served.Load()
		time.Sleep(5 * time.Second)
		if n := served.Load() - before; n < 100 {
			t.Errorf("the others served %d slots", n)
		}
		cancel()
		all.wg.Wait()
		if rest := all.most.Load(); whole != n || rest > lowered {
			t.Errorf("%d of %d held at once, then %d of %d", whole, n, rest, lowered)
		}
	})
}
