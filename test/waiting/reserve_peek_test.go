package waiting

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// For every algorithm, beside whatever is reserved: a call gets what Peek says is free and not one
// more, and a denied call says when n permits are free together. Everybody who asks is new, so
// nothing but the replies can tell.
func TestNPermitsComeWhenSaidBesideReservations(t *testing.T) {
	t.Parallel()
	for i, a := range limittest.Algorithms {
		for k, shards := range []int{1, 3} {
			if !extent.Plays(i + 2*k) { // one goroutine calls
				continue
			}
			if a == shardlimit.SlidingCounter && shards > 1 {
				continue // what was collected and given back ends a cell later
			}
			t.Run(fmt.Sprint(a, " on ", shards), func(t *testing.T) {
				t.Parallel()
				f, set := limittest.Frozen(t, shards)
				w := &besideWalk{
					f: f, set: set, rng: rand.New(rand.NewPCG(3, uint64(shards))), now: time.Unix(1_800_000_000, 0),
					limit: shardlimit.Limit{Permits: 20, Per: time.Hour, Algorithm: a, Shards: shards},
				}
				for round := range 5 {
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
	f      limittest.Fleet
	set    func(time.Time)
	rng    *rand.Rand
	now    time.Time
	limit  shardlimit.Limit
	beside int // looks at which something was free, and something reserved
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
