package shardlimit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
)

// What Peek calls free is what a call is granted, also while permits are reserved for later: those
// do not take up room before they are due.
func TestPeekSaysWhatACallGetsBesideAReservation(t *testing.T) {
	for name, nodes := range map[string]func(testing.TB) fleet{
		"emulated": func(tb testing.TB) fleet { f, _ := frozen(tb, 1); return f },
		"redis":    standalone,
	} {
		t.Run(name, func(t *testing.T) {
			f := nodes(t)
			l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1})
			if d, err := l.AllowN(t.Context(), 6); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			booking, err := l.Reserve(t.Context(), 8) // behind the six
			if err != nil || booking.Delay() < 50*time.Minute {
				t.Fatalf("%+v, %v", booking, err)
			}
			st := peek(t, l)
			if st.Remaining != 2 || st.RetryAfter != 0 || st.When(2) != 0 || st.Used != 14 || st.Shards[0].Free != 2 {
				t.Errorf("%d free, the first in %s, two in %s; used %d: %+v", st.Remaining, st.RetryAfter, st.When(2),
					st.Used, st.Shards)
			}
			// Three fit only behind the eight, and then all ten do.
			if st.When(3) <= booking.Delay()+50*time.Minute || st.When(10) != st.When(3) ||
				st.ResetAfter != st.When(10) {
				t.Errorf("three in %s, ten in %s, reset in %s", st.When(3), st.When(10), st.ResetAfter)
			}
			d, err := l.AllowN(t.Context(), 3)
			if late := st.When(3) - d.RetryAfter; err != nil || d.Allowed || late < 0 || late > time.Minute {
				t.Errorf("three in %s, Peek says %s: %v", d.RetryAfter, st.When(3), err)
			}
			two, err := l.AllowN(t.Context(), 2)
			if err != nil || !two.Allowed || two.Remaining != 0 {
				t.Fatalf("%+v, %v", two, err)
			}
			if st := peek(t, l); st.Remaining != 0 || st.RetryAfter <= booking.Delay() || st.RetryAfter != st.When(1) {
				t.Errorf("%d free, the first in %s, by When in %s", st.Remaining, st.RetryAfter, st.When(1))
			}
			if err := l.Settle(t.Context(), two, 0); err != nil {
				t.Fatal(err)
			}
			if st := peek(t, l); st.Remaining != 2 || st.RetryAfter != 0 {
				t.Errorf("after a refund %d are free, the first in %s", st.Remaining, st.RetryAfter)
			}
		})
	}
}

// For every algorithm, beside whatever is reserved: a call gets what Peek says is free and not one
// more, Peek knows to the microsecond when n permits are free together, and a denied call says the
// same. Everybody who asks is new, so nothing but the replies can tell.
func TestPeekKnowsWhenNPermitsComeBesideReservations(t *testing.T) {
	t.Parallel()
	for i, a := range algorithms {
		for k, shards := range []int{1, 3} {
			if !extent.Plays(i + 2*k) { // one goroutine calls
				continue
			}
			if a == shardlimit.SlidingCounter && shards > 1 {
				continue // what was collected and given back ends a cell later
			}
			t.Run(fmt.Sprint(a, " on ", shards), func(t *testing.T) {
				t.Parallel()
				f, set := frozen(t, shards)
				w := &besideWalk{
					f: f, set: set, rng: rand.New(rand.NewPCG(3, uint64(shards))), now: time.Unix(1_800_000_000, 0),
					limit: shardlimit.Limit{Permits: 20, Per: time.Hour, Algorithm: a, Shards: shards},
				}
				for round := range 8 {
					w.round(t, fmt.Sprint(round))
				}
				if w.beside == 0 && shards == 1 && (a == shardlimit.SlidingLog || a == shardlimit.FixedWindow) {
					t.Error("nothing was ever free beside a reservation")
				}
			})
		}
	}
}

// besideWalk takes and reserves at random, and looks.
type besideWalk struct {
	f      fleet
	set    func(time.Time)
	rng    *rand.Rand
	now    time.Time
	limit  shardlimit.Limit
	beside int // looks at which something was free, and something reserved
}

func (w *besideWalk) one(t *testing.T, name string) *shardlimit.Limiter {
	alone := func(c *shardlimit.Config) { c.Participant = "somebody" }
	return limiter(t, w.f.client(t, patientFor(30*time.Second), alone), name, w.limit)
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
		if w.rng.IntN(3) == 0 {
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
	st := peek(t, w.one(t, name))
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

// comes sees that n permits come when Peek says, and until then those that are free.
func (w *besideWalk) comes(t *testing.T, name string, n int64, st shardlimit.State) {
	when := st.When(n)
	d, err := w.one(t, name).AllowN(t.Context(), n)
	if err != nil || d.Allowed {
		t.Fatalf("%d permits: %+v, %v: %+v", n, d, err, st)
	}
	if off := d.RetryAfter - when; off > time.Microsecond || off < -time.Second { // the process' own clock went on
		t.Errorf("RetryAfter for %d is %s, Peek says %s: %+v", n, d.RetryAfter, when, st)
	}
	if st.Remaining == 0 && st.RetryAfter != st.When(1) || st.Remaining > 0 && st.RetryAfter != 0 {
		t.Errorf("RetryAfter is %s, one permit comes in %s: %+v", st.RetryAfter, st.When(1), st)
	}
	if w.rng.IntN(2) == 0 {
		if d, err := w.one(t, name).AllowUpTo(t.Context(), 20); err != nil || d.Granted != st.Remaining {
			t.Fatalf("%+v, %v: %+v", d, err, st)
		}
		return
	}
	w.set(w.now.Add(when - time.Microsecond))
	if d, err := w.one(t, name).AllowN(t.Context(), n); err != nil || d.Allowed {
		t.Fatalf("%d permits a microsecond before %s: %+v, %v: %+v", n, when, d, err, st)
	}
	w.set(w.now.Add(when))
	if d, err := w.one(t, name).AllowN(t.Context(), n); err != nil || !d.Allowed {
		t.Fatalf("%d permits after %s: %+v, %v: %+v", n, when, d, err, st)
	}
}
