package promises

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// in is the limit in a mode.
func in(m shardlimit.Mode, limit shardlimit.Limit) shardlimit.Limit {
	limit.Mode = m
	return limit
}

// switchTo puts a limit in a mode, and waits until other processes have heard. It takes permits.
func switchTo(t *testing.T, m shardlimit.Mode, l *shardlimit.Limiter, others ...*shardlimit.Limiter) {
	t.Helper()
	limittest.Must(t, l.SetLimit(t.Context(), in(m, l.Limit())))
	for _, o := range others {
		limittest.AwaitThat(t, "the other process hears of the mode", func() bool {
			_, err := o.Allow(t.Context())
			return err == nil && o.Limit().Mode == m
		})
	}
}

// mustDecide asks for n permits and checks what the decision says.
func mustDecide(t *testing.T, l *shardlimit.Limiter, n int64, allowed, shadowed bool) shardlimit.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), n)
	if err != nil || d.Mode() != l.Limit().Mode || d.Allowed != allowed || d.Shadowed != shadowed ||
		d.Allowed != (d.Granted == n) ||
		d.Allowed != (d.RetryAfter == 0) || d.Limit != l.Limit().Permits {
		t.Fatalf("%d of %v: %+v, %v; want allowed %v, shadowed %v", n, l.Limit(), d, err, allowed, shadowed)
	}
	return d
}

// One process changes the mode, another one goes by it.
func TestEveryProcessGoesByTheMode(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 2})
		other := f.Limiter(t, shardlimit.PerHour(1))
		mustDecide(t, l, 7, true, false)
		switchTo(t, shardlimit.Off, l, other)
		before := limittest.Peek(t, l).Used
		for _, who := range []*shardlimit.Limiter{l, other} {
			mustDecide(t, who, 1, true, false)
			mustDecide(t, who, 1_000, true, false)
		}
		switchTo(t, shardlimit.Closed, l)
		if st := limittest.Peek(t, l); st.Used != before || st.Limit.Mode != shardlimit.Closed || !st.Settled {
			t.Errorf("while the limit was off %d permits became %d: %+v", before, st.Used, st)
		}
		if d := mustDecide(t, l, 1, false, false); d.RetryAfter != 15*time.Second || d.Remaining != 0 {
			t.Errorf("closed: %+v", d)
		}
		switchTo(t, shardlimit.Shadow, l)
		for used := before; used < 20; used++ {
			mustDecide(t, l, 1, true, false)
		}
		mustDecide(t, l, 1, true, true)
		mustDecide(t, l, 1_000, true, true)
		if d, err := l.AllowUpTo(t.Context(), 30); err != nil || d.Granted != 30 || !d.Shadowed {
			t.Errorf("up to 30 in shadow: %+v, %v", d, err)
		}
		switchTo(t, shardlimit.Enforced, l)
		mustDecide(t, l, 1, false, false)
		limittest.Uses(t, l, 20)
		limittest.ErrorIs(t, limittest.Err(l.AllowN(t.Context(), 1_000)), shardlimit.ErrExceedsLimit, "too many")
	})
}

// Callers of a closed limit wait until any process opens it, in any mode, or until their deadline.
// Off and in shadow all pass, whatever they want.
func TestCallersWaitUntilTheLimitIsOpened(t *testing.T) {
	for _, m := range []shardlimit.Mode{shardlimit.Enforced, shardlimit.Off, shardlimit.Shadow} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			closed := in(shardlimit.Closed, shardlimit.PerDay(5))
			l, other := f.Limiter(t, closed), f.Limiter(t, closed)
			for _, wait := range []func(context.Context) error{l.Wait, limittest.Set(1, l).Wait} {
				began := time.Now()
				if err := wait(limittest.Shortly(t, 10*time.Second)); !errors.Is(err, context.DeadlineExceeded) ||
					time.Since(began) < 10*time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
			calls := []func(context.Context, int64) error{l.WaitN, other.WaitN,
				func(ctx context.Context, n int64) error { return limittest.Set(n, other).Wait(ctx) }}
			waited, numbers := make(chan error), []int64{1, 3}
			if m == shardlimit.Enforced {
				numbers = numbers[:1]
			}
			for _, n := range numbers {
				for _, wait := range calls {
					go func() { waited <- wait(t.Context(), n) }()
				}
			}
			time.Sleep(time.Minute)
			select {
			case err := <-waited:
				t.Fatalf("somebody passed a closed limit: %v", err)
			default:
			}
			opened := time.Now()
			switchTo(t, m, l)
			for range len(numbers) * len(calls) {
				limittest.Must(t, <-waited)
			}
			if took := time.Since(opened); took > 20*time.Second {
				t.Errorf("it took %v until waiters heard that the limit was opened", took)
			}
			if m == shardlimit.Enforced {
				limittest.Uses(t, l, 3)
			}
		})
	}
}

// In shadow nobody is delayed, and what would have been says so.
func TestShadowDelaysNobody(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, in(shardlimit.Shadow, shardlimit.Limit{Permits: 10, Per: 10 * time.Second,
			Burst: 3, Algorithm: shardlimit.LeakyBucket, Shards: 1}))
		began := time.Now()
		for i := range 5 {
			d := mustDecide(t, l, 1, true, i > 0)
			if d.Delay != 0 {
				t.Errorf("call %d is delayed: %+v", i, d)
			}
			limittest.Must(t, l.Settle(t.Context(), d, 0))
			limittest.Must(t, l.Wait(t.Context()))
			r, err := l.Reserve(t.Context(), 1)
			if err != nil || r.Delay() != 0 || !r.Shadowed() {
				t.Errorf("reserved: %+v, %v", r, err)
			}
			limittest.Must(t, r.Cancel(t.Context()))
		}
		if time.Since(began) > time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// In shadow there comes back what was counted and not used, and nothing of what was not counted.
func TestSettleInShadow(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		for name, limit := range map[string]shardlimit.Limit{"all": shardlimit.PerHour(10),
			"each": limittest.PerParticipant(10, time.Hour)} {
			l := limittest.Limiter(t, f.Client(t), name, in(shardlimit.Shadow, limit))
			for used, over := range map[int64]bool{20: true, 4: false} {
				d, err := l.AllowUpTo(t.Context(), 30)
				limittest.Must(t, err)
				limittest.Must(t, l.Settle(t.Context(), d, used))
				limittest.Must(t, l.Settle(t.Context(), mustDecide(t, l, 6, true, over), 0))
				mustDecide(t, l, 7, true, true)
				time.Sleep(2 * time.Hour)
			}
		}
	})
}

// A mode that grants whatever is asked for grants no more than a limit can have, which is what the
// text of a decision can tell.
func TestNoModeGrantsMoreThanMaxPermits(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerHour(10))
		for _, m := range []shardlimit.Mode{shardlimit.Off, shardlimit.Shadow} {
			switchTo(t, m, l)
			for _, call := range []func(context.Context, int64) (shardlimit.Decision, error){l.AllowN, l.AllowUpTo} {
				d, err := call(t.Context(), shardlimit.MaxPermits)
				if handed := handOver(t, d); err != nil || handed.Granted != d.Granted {
					t.Errorf("%v: %+v, %v", m, d, err)
				}
				_, err = call(t.Context(), shardlimit.MaxPermits+1)
				limittest.ErrorIs(t, err, shardlimit.ErrInvalidPermits, m)
			}
			if r, err := l.Reserve(t.Context(), 100); err != nil || r.Delay() != 0 || r.Permits() != 100 {
				t.Errorf("%v: %+v, %v", m, r, err)
			}
		}
	})
}

// While no node answers the modes hold as last heard, or as declared.
func TestModesWhileNodesAreAway(t *testing.T) {
	for m, want := range map[shardlimit.Mode]struct{ allowed, shadowed, degraded bool }{
		shardlimit.Off: {allowed: true}, shardlimit.Closed: {}, shardlimit.Shadow: {true, true, true},
	} {
		l := limittest.Away().Limiter(t, in(m, shardlimit.PerMinute(5)), limittest.PatientFor(50*time.Millisecond))
		d, err := l.Allow(t.Context())
		if err != nil || d.Allowed != want.allowed || d.Shadowed != want.shadowed || d.Degraded != want.degraded {
			t.Errorf("%v: %+v, %v", m, d, err)
		}
		if m != shardlimit.Closed {
			limittest.ErrorIs(t, l.Wait(t.Context()), nil, m)
		}
	}
}

// What a process decides by itself goes by the mode: what each participant has for itself, and what
// is left of a lease.
func TestModesOfWhatAProcessDecidesByItself(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		own := limittest.Limiter(t, c, "own", limittest.PerParticipant(1, time.Hour))
		mustDecide(t, own, 1, true, false)
		mustDecide(t, own, 1, false, false)
		leased := limittest.Limiter(t, c, "leased",
			shardlimit.Limit{Permits: 1_000, Per: time.Hour, Lease: time.Minute})
		for range 20 {
			mustDecide(t, leased, 1, true, false)
		}
		for _, m := range []shardlimit.Mode{shardlimit.Shadow, shardlimit.Off, shardlimit.Closed, shardlimit.Enforced} {
			switchTo(t, m, own)
			switchTo(t, m, leased)
			mustDecide(t, own, 1, m == shardlimit.Shadow || m == shardlimit.Off, m == shardlimit.Shadow)
			mustDecide(t, leased, 1, m != shardlimit.Closed, false)
			if m == shardlimit.Closed {
				mustDecide(t, own.As("other", 1), 1, false, false)
			}
		}
	})
}

// The keys of a family have its mode, but where another one comes with the call.
func TestModesOfKeys(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		fam := limittest.Family(t, f.Client(t), "f", shardlimit.PerHour(1))
		for _, key := range []string{"a", "b", "c"} {
			mustDecide(t, fam.Limiter(key), 1, true, false)
		}
		mustDecide(t, fam.LimiterWith("a", in(shardlimit.Closed, fam.Limit())), 1, false, false)
		mustDecide(t, fam.LimiterWith("b", in(shardlimit.Off, fam.Limit())), 1_000, true, false)
		mustDecide(t, fam.LimiterWith("c", in(shardlimit.Shadow, fam.Limit())), 1, true, true)
		mustDecide(t, fam.Limiter("c"), 1, false, false)
		limittest.Must(t, fam.SetLimit(t.Context(), in(shardlimit.Shadow, fam.Limit())))
		mustDecide(t, fam.Limiter("c"), 1, true, true)
		mustDecide(t, fam.LimiterWith("c", shardlimit.PerHour(1)), 1, false, false)
	})
}

// A call that a shard refuses, and tells of another mode, is decided by that.
func TestARefusedCallGoesByTheModeThatItHearsOf(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
		l, other := f.Limiter(t, limit), f.Limiter(t, limit)
		mustDecide(t, other, 1, true, false)
		time.Sleep(time.Second) // it has read the record
		mustDecide(t, l, 9, true, false)
		switchTo(t, shardlimit.Off, l)
		mustDecide(t, other, 1, true, false)
	})
}

// A call passes a Set by what each of its limits says in its mode.
func TestModesInASet(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		strict := limittest.Limiter(t, c, "strict", shardlimit.PerHour(5))
		off := limittest.Limiter(t, c, "off", in(shardlimit.Off, shardlimit.PerHour(1)))
		watched := limittest.Limiter(t, c, "watched", in(shardlimit.Shadow, shardlimit.PerHour(1)))
		closed := limittest.Limiter(t, c, "closed", in(shardlimit.Closed, shardlimit.PerHour(9)))
		for range 2 {
			set := limittest.Set(2, strict, off, watched)
			d := limittest.Passes(t, set)
			if !d.Shadowed {
				t.Errorf("%+v", d)
			}
			limittest.Must(t, set.Settle(t.Context(), d, 0, 0, 0))
		}
		passes := func(limit, remaining int64, mode shardlimit.Mode, set *shardlimit.Set) shardlimit.Decision {
			t.Helper()
			d := limittest.Passes(t, set)
			if d.Limit != limit || d.Remaining != remaining || d.Mode() != mode {
				t.Errorf("%+v, want %d of %d left, %v", d, remaining, limit, mode)
			}
			return d
		}
		passes(5, 4, shardlimit.Enforced, limittest.Set(1, off, strict))
		passes(shardlimit.MaxPermits, shardlimit.MaxPermits, shardlimit.Off, limittest.Set(1, off))
		passes(1, 0, shardlimit.Shadow, limittest.Set(1, watched, off))
		set := limittest.Set(1, strict, off, watched)
		d := passes(5, 3, shardlimit.Enforced, set)
		if each := set.Each(d); each[2].Mode() != shardlimit.Shadow {
			t.Errorf("%+v", each)
		}
		limittest.Must(t, set.Settle(t.Context(), d, 0, 0, 0))
		d = limittest.Refuses(t, limittest.Set(1, strict, closed))
		if d.RetryAfter != 15*time.Second || d.Mode() != shardlimit.Closed {
			t.Errorf("with a closed one: %+v", d)
		}
		limittest.Uses(t, strict, 1)
	})
}

// A limit that is only watched neither delays those who wait for a Set nor is asked before the
// others, however much it lacks.
func TestAWatchedLimitHoldsUpNoSet(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		strict := limittest.Limiter(t, c, "strict", shardlimit.Limit{Permits: 2, Per: time.Minute, Shards: 1})
		watched := strict
		for i := 0; limittest.Peek(t, watched).Shards[0].Node == limittest.Peek(t, strict).Shards[0].Node; i++ {
			watched = limittest.Limiter(t, c, fmt.Sprint(i), shardlimit.Limit{Permits: 1, Per: time.Hour, Shards: 1,
				Mode: shardlimit.Shadow})
		}
		set := limittest.Set(1, strict, watched)
		mustDecide(t, strict, 1, true, false)
		mustDecide(t, watched, 1, true, false)
		time.Sleep(time.Second) // nothing is under way any more
		for _, n := range f.Bubble {
			n.Stuck.Store(int64(time.Millisecond))
		}
		began := time.Now()
		if d := limittest.Passes(t, set); !d.Shadowed {
			t.Errorf("%+v", d)
		}
		if took := time.Since(began); took > 3*time.Millisecond/2 {
			t.Errorf("it took %v, of which a script call is a millisecond", took)
		}
		for i := range 2 { // the second is denied from memory
			d := limittest.Refuses(t, set)
			if each := set.Each(d); d.RetryAfter > time.Minute || each[0].Allowed || !each[1].Allowed ||
				each[1].RetryAfter != 0 {
				t.Errorf("denial %d: %+v, of each %+v", i, d, each)
			}
		}
		limittest.Must(t, set.Wait(limittest.Shortly(t, 2*time.Minute)))
	})
}
