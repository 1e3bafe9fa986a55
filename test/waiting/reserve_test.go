package waiting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// While a shard answers there is no outage: not where another process has lowered the limit,
// unheard, and not where those that answer never have so many permits. While no node answers the
// outage policy says what a reservation is.
func TestReserveHearsThatTheLimitWasLowered(t *testing.T) {
	for _, policy := range []shardlimit.OutagePolicy{shardlimit.FailClosed, shardlimit.FailOpen, shardlimit.FailLocal} {
		limittest.RunInBubble(t, fmt.Sprint(policy), 2, func(t *testing.T, f limittest.Fleet) {
			for shards := 1; shards <= 2; shards++ {
				name, limit := fmt.Sprint(shards), shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: shards}
				l := limittest.Limiter(t, f.Client(t, limittest.OnOutage(policy)), name, limit)
				limittest.MustGet(t, l, 1)
				limit.Permits = 10
				limittest.Must(t, limittest.Limiter(t, f.Client(t), name, limit).SetLimit(t.Context(), limit))
				r, err := l.Reserve(t.Context(), 50)
				limittest.ErrorIs(t, err, shardlimit.ErrExceedsLimit, shards, "shards: ", r)
			}
			l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 2}, limittest.OnOutage(policy))
			limittest.Settled(t, l)
			f.Bubble[1].Down.Store(true)
			if limittest.Denied(t, l, 60).Degraded {
				t.Error("the outage policy answered")
			}
			far := (*shardlimit.TooFarAheadError)(nil)
			r, err := l.Reserve(t.Context(), 60)
			if !errors.As(err, &far) || far.Delay <= 0 || far.Delay > time.Minute {
				t.Errorf("%v, %v", r, err)
			}
			r, err = l.Reserve(limittest.Shortly(t, time.Millisecond), 60)
			limittest.ErrorIs(t, err, shardlimit.ErrWaitTooLong, "with a deadline: ", r)

			f.Bubble[0].Down.Store(true)
			for i := range 3 {
				r, err := l.Reserve(t.Context(), 100)
				switch {
				case policy == shardlimit.FailClosed:
					limittest.ErrorIs(t, err, shardlimit.ErrUnavailable)
				case policy == shardlimit.FailLocal && i > 0:
					if !errors.As(err, &far) || far.Delay != time.Second { // by then a node may answer
						t.Errorf("ahead: %v", err)
					}
				case err != nil || r.Delay() != 0 || !r.Degraded():
					t.Errorf("%v, %v", r, err)
				}
			}
		})
	}
}

// bookedFourShards returns a limiter of four shards, and how to book 20 permits, which tells in how
// long they come. Each shard, whose share is 25, has granted as many at once.
func bookedFourShards(t *testing.T, f limittest.Fleet) (l *shardlimit.Limiter, book func() time.Duration) {
	l = f.Limiter(t, shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 4})
	book = func() time.Duration {
		r, err := l.Reserve(t.Context(), 20)
		limittest.Must(t, err)
		return r.Delay()
	}
	for range 4 {
		book()
	}
	return l, book
}

// Several shards are booked for one instant, if they have the permits much sooner than one alone.
func TestABookingIsSplitIfThatIsSooner(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		_, book := bookedFourShards(t, f)
		if split, alone := book(), book(); split > time.Second || alone < 59*time.Second {
			t.Errorf("they come in %v, and others in %v", split, alone)
		}
	})
}

// A booking of several shards that comes after the deadline is refused, and harms no other limit.
func TestABookingThatComesTooLate(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2})
		limittest.MustGet(t, l, 4)
		ctx := limittest.Shortly(t, 300*time.Millisecond)
		if _, err := l.Reserve(ctx, 8); !errors.Is(err, shardlimit.ErrWaitTooLong) {
			t.Error(err)
		}
		limittest.MustGet(t, l, 6)
	})
}

// Permits that stay free beside a booking are granted at once. In a bucket the booking waits for
// those that are there, too.
func TestABookingLeavesWhatItDoesNotNeed(t *testing.T) {
	for algorithm, free := range map[shardlimit.Algorithm]int64{shardlimit.SlidingLog: 5, shardlimit.SlidingCounter: 5,
		shardlimit.FixedWindow: 5, shardlimit.TokenBucket: 0} {
		limittest.RunInBubble(t, algorithm.String(), 1, func(t *testing.T, f limittest.Fleet) {
			l := f.Limiter(t, shardlimit.Limit{Permits: 25, Per: time.Minute, Algorithm: algorithm})
			_, err := l.Reserve(t.Context(), 20)
			limittest.Must(t, err)
			ahead, err := l.Reserve(t.Context(), 20)
			if limittest.Must(t, err); ahead.Delay() == 0 {
				t.Error("it is not booked ahead")
			}
			d, err := l.AllowUpTo(t.Context(), 20)
			if limittest.Must(t, err); d.Granted != free {
				t.Errorf("%d are granted, want %d", d.Granted, free)
			}
		})
	}
}

// A booking over several shards of which one refuses is made on one alone, and what the others had
// booked is free again.
func TestAShardAloneTakesOverASplitThatFailed(t *testing.T) {
	for what, refuses := range map[string]bool{"both nodes serve": false, "one refuses": true} {
		limittest.RunInBubble(t, what, 2, func(t *testing.T, f limittest.Fleet) {
			l, book := bookedFourShards(t, f)
			if refuses { // it can be looked at
				f.Bubble[1].Redis.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
			}
			if delay := book(); refuses != (delay > 59*time.Second) {
				t.Errorf("they come in %v", delay)
			}
			d, err := l.AllowUpTo(t.Context(), 20)
			if limittest.Must(t, err); refuses && d.Granted != 10 {
				t.Errorf("%d are free, want 5 on each shard of the other node", d.Granted)
			}
		})
	}
}

// A permit that was reserved is used when it is due: the history has it between the call and its
// reply, later by the delay.
func TestNoWindowIsOverWithReservations(t *testing.T) {
	t.Parallel()
	for _, limit := range []shardlimit.Limit{
		{Permits: 60, Per: 100 * time.Millisecond, Shards: 8},
		{Permits: 3000, Per: 300 * time.Millisecond, Shards: 3},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			limiters := limittest.Standalone(t).Group(t, 3, fmt.Sprint(limit), limit)
			callers := limittest.NewTraffic(t)
			callers.Start(2, limiters...)
			var ahead, cancelled atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i, l := range limiters {
				wg.Go(func() {
					rng, tally := rand.New(rand.NewPCG(1, uint64(i))), callers.Record.Tally()
					for ctx.Err() == nil {
						reserveAndUse(t, l, rng, tally, &ahead, &cancelled)
					}
				})
			}
			time.Sleep(max(8*limit.Per, time.Second)) // how long they work; nothing is right because of it
			limittest.AwaitThat(t, "some are made ahead, and some of those cancelled",
				func() bool { return ahead.Load() > 1 && cancelled.Load() > 0 })
			stop()
			wg.Wait()
			worst := limittest.KeepsTo(t, limit, callers.Ended(t))
			t.Logf("%d reservations ahead, %d cancelled; worst window: %d of %d", ahead.Load(), cancelled.Load(),
				worst.Permits, limit.Permits)
		})
	}
}

// What a reservation waits for may come while its parts are moved to one date.
func TestReservationsInWindowsOfARoundTrip(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 12, Per: 17 * time.Millisecond, Shards: 4}
		l := f.Limiter(t, limit)
		for i, n := range f.Bubble {
			n.Stuck.Store(int64(3+2*i) * int64(time.Millisecond))
		}
		reserved, tries := 0, 0
		for ; reserved < 5 && tries < 200; tries++ { // some five of twenty are, but that varies
			limittest.Must(t, limittest.Err(l.AllowN(t.Context(), 12)))
			switch r, err := l.Reserve(t.Context(), 10); {
			case errors.Is(err, shardlimit.ErrTooFarAhead): // what the one before booked is still due
			case err != nil:
				t.Error(err)
			case r.Delay() > 2*limit.Per:
				t.Errorf("it comes in %s", r.Delay())
			default:
				reserved++
			}
		}
		if reserved < 5 {
			t.Errorf("%d of %d", reserved, tries)
		}
	})
}

func TestALargeWaiterThatLeavesGivesAllBack(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		f := limittest.Standalone(t)
		limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: shards}
		l, other := f.Limiter(t, limit), f.Limiter(t, limit)
		limittest.MustGet(t, l, 30)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		joinLine(t, l, func() { left <- l.WaitN(ctx, 35) })
		limittest.AwaitThat(t, "it has reserved", func() bool { return limittest.Peek(t, other).Used == 65 })
		cancel()
		limittest.ErrorIs(t, <-left, context.Canceled)
		limittest.AwaitThat(t, "it is given back", func() bool { return limittest.Peek(t, other).Used == 30 })
	}
}

// Under every algorithm all permits can be reserved at once, and nothing behind them or for a
// deadline before them: a call that is denied then hears that the limit owes. What cannot be
// reserved takes nothing, and what is cancelled is free again.
func TestEveryAlgorithmReservesAndTakesBack(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for _, shards := range []int{1, 4} {
			limittest.RunInBubble(t, fmt.Sprint(a, " over ", shards), 1, func(t *testing.T, f limittest.Fleet) {
				reservesAndTakesBack(t, f, shardlimit.Limit{Permits: 80, Per: time.Hour, Algorithm: a, Shards: shards})
			})
		}
	}
}

func reservesAndTakesBack(t *testing.T, f limittest.Fleet, limit shardlimit.Limit) {
	a := limit.Algorithm
	l, other := f.Limiter(t, limit), f.Limiter(t, limit)
	least, most := 59*time.Minute, 65*time.Minute
	switch a {
	case shardlimit.FixedWindow:
		least = 1
	case shardlimit.LeakyBucket: // the last of 80 or of 20 turns
		least = 56 * time.Minute
	}
	if a != shardlimit.LeakyBucket {
		limittest.MustGet(t, l, limit.Permits)
	}
	used := limittest.Peek(t, other).Used
	soon := limittest.Shortly(t, time.Minute)
	limittest.ErrorIs(t, limittest.Err(l.Reserve(soon, limit.Permits/2)), shardlimit.ErrWaitTooLong)
	limittest.Uses(t, l, used)
	for range 3 {
		r := mustReserve(t, l, limit.Permits)
		if d := r.Delay(); d < least || d > most {
			t.Fatalf("all permits come in %s", d)
		}
		// A turn that there is no room for would come just behind the others.
		far := (*shardlimit.TooFarAheadError)(nil)
		if _, err := other.Reserve(t.Context(), 1); !errors.As(err, &far) ||
			far.Delay <= limit.Per && (a != shardlimit.LeakyBucket || far.Delay < r.Delay()) {
			t.Fatalf("behind all permits: %v", err)
		}
		for _, from := range []string{"a shard", "memory"} {
			d := limittest.Denied(t, other, 1)
			// Under LeakyBucket it is a turn like any other.
			if owes := d.Reason == shardlimit.ReasonOwes; owes == (a == shardlimit.LeakyBucket) {
				t.Errorf("denied by %s: %q", from, d.Reason)
			}
		}
		limittest.Must(t, r.Cancel(t.Context()))
		// A bucket gains a permit in 45 s. It was held back until all shards were due, so what
		// each lacks can have been rounded up.
		if st := limittest.Peek(t, other); st.Used < used-1 || st.Used > used && a != shardlimit.TokenBucket ||
			st.Used > used+int64(limit.Shards) {
			t.Fatalf("%d permits are in use after it was cancelled, want %d", st.Used, used)
		}
		l, other = other, l
		limittest.ForgetDenials(l) // what it heard of the shards before
	}
}

// For every algorithm, beside whatever is reserved, and of a log beside nothing: a call gets what
// Peek says is free and not one more, and a denied call says when n permits are free together. Who
// comes 5 % earlier is denied. Everybody who asks is new, so nothing but the replies can tell.
func TestNPermitsComeWhenSaid(t *testing.T) {
	t.Parallel()
	for i, a := range append(slices.Clone(limittest.Algorithms), shardlimit.SlidingLog) {
		for k, shards := range []int{1, 3} {
			books := i < len(limittest.Algorithms)
			if books && !extent.Plays(i+2*k) { // one goroutine calls
				continue
			}
			if a == shardlimit.SlidingCounter && shards > 1 {
				continue // what was collected and given back ends a cell later
			}
			t.Run(fmt.Sprint(a, " on ", shards, ", reserves ", books), func(t *testing.T) {
				t.Parallel()
				f, set := limittest.Frozen(t, shards)
				w := &besideWalk{
					f: f, set: set, rng: rand.New(rand.NewPCG(3, uint64(shards))), now: time.Unix(1_800_000_000, 0),
					limit: shardlimit.Limit{Permits: 20, Per: time.Hour, Algorithm: a, Shards: shards}, books: books,
				}
				for round := range 5 {
					w.round(t, fmt.Sprint(round))
				}
				if w.beside == 0 && shards == 1 && books && (a == shardlimit.SlidingLog || a == shardlimit.FixedWindow) {
					t.Error("nothing was ever free beside a reservation")
				}
			})
		}
	}
}

// besideWalk takes and reserves at random, and looks.
type besideWalk struct {
	f      limittest.Fleet
	set    func(time.Time)
	rng    *rand.Rand
	now    time.Time
	limit  shardlimit.Limit
	books  bool // it reserves, too
	beside int  // looks at which something was free, and something reserved
}

func (w *besideWalk) one(t *testing.T, name string) *shardlimit.Limiter {
	alone := func(c *shardlimit.Config) { c.Participant = "somebody" }
	return limittest.Limiter(t, w.f.Client(t, limittest.PatientFor(30*time.Second), alone), name, w.limit)
}

func (w *besideWalk) pass(most time.Duration) {
	w.now = w.now.Add(time.Duration(1+w.rng.Int64N(int64(most/time.Microsecond))) * time.Microsecond)
	w.set(w.now)
}

func (w *besideWalk) round(t *testing.T, name string) {
	w.set(w.now)
	reserved := false
	for range 4 + w.rng.IntN(8) {
		n := 1 + w.rng.Int64N(9)
		if w.books && w.rng.IntN(3) == 0 {
			r, err := w.one(t, name).Reserve(t.Context(), n)
			if err != nil && !errors.Is(err, shardlimit.ErrTooFarAhead) &&
				!errors.Is(err, shardlimit.ErrWaitTooLong) {
				t.Fatal(err)
			}
			reserved = reserved || err == nil && r.Delay() > time.Second
		} else if _, err := w.one(t, name).AllowN(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Minute)
	}
	st := limittest.Peek(t, w.one(t, name))
	if reserved && st.Remaining > 0 {
		w.beside++
	}
	if n := st.Remaining + 1; n <= 20 {
		w.comes(t, name, n+w.rng.Int64N(20-n+1), st)
	} else if d, err := w.one(t, name).AllowN(t.Context(), 20); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v: %+v", d, err, st)
	}
	w.now = w.now.Add(10 * time.Hour)
}

// comes sees that n permits come when a denied call is told, and until then those that are free.
func (w *besideWalk) comes(t *testing.T, name string, n int64, st shardlimit.State) {
	begun := time.Now()
	d, err := w.one(t, name).AllowN(t.Context(), n)
	if err != nil || d.Allowed {
		t.Fatalf("%d permits: %+v, %v: %+v", n, d, err, st)
	}
	if n == 1 && st.RetryAfter != 0 && (d.RetryAfter > st.RetryAfter ||
		st.RetryAfter-d.RetryAfter > time.Since(begun)) {
		t.Errorf("RetryAfter is %s, Peek says %s", d.RetryAfter, st.RetryAfter)
	}
	if (st.Remaining == 0) != (st.RetryAfter > 0) {
		t.Errorf("%d are free, RetryAfter is %s: %+v", st.Remaining, st.RetryAfter, st)
	}
	if w.rng.IntN(2) == 0 {
		if d, err := w.one(t, name).AllowUpTo(t.Context(), 20); err != nil || d.Granted != st.Remaining {
			t.Fatalf("%+v, %v: %+v", d, err, st)
		}
		return
	}
	early, when := d.RetryAfter-d.RetryAfter/20, d.RetryAfter+time.Since(begun) // its own clock went on
	w.set(w.now.Add(early))
	limittest.Denied(t, w.one(t, name), n)
	w.set(w.now.Add(when))
	limittest.MustGet(t, w.one(t, name), n)
}
