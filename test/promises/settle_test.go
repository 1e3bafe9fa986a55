package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// handOver is the decision as another process gets it.
func handOver(tb testing.TB, d shardlimit.Decision) (handed shardlimit.Decision) {
	tb.Helper()
	text, err := d.MarshalText()
	limittest.Must(tb, err)
	limittest.Must(tb, handed.UnmarshalText(text))
	return handed
}

// What was used beyond what was granted is missing afterwards, once, whoever settles it: on real
// servers and embedded ones.
func TestMoreUsedThanGrantedIsMissing(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		for _, a := range limittest.Algorithms {
			for _, shards := range []int{1, 3} {
				name := fmt.Sprint(a, shards)
				limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Algorithm: a, Shards: shards}
				l, other := limittest.Limiter(t, f.Client(t), name, limit),
					limittest.Limiter(t, f.Client(t), name, limit)
				less := limittest.MustGet(t, l, 20)
				limittest.Must(t, l.Settle(t.Context(), less, 19))
				limittest.ErrorIs(t, l.Settle(t.Context(), less, 40), shardlimit.ErrSettled, name)
				d := limittest.MustGet(t, l, 4)
				limittest.Must(t, other.Settle(t.Context(), handOver(t, d), 25))
				for _, again := range []int64{25, 3, 0, 29} {
					limittest.ErrorIs(t, l.Settle(t.Context(), d, again), shardlimit.ErrSettled, "once more", name)
				}
				limittest.Uses(t, other, 44)
				limittest.Denied(t, l, 1)
			}
		}
	})
}

// Debts come back when the algorithm says so, also those of a decision that has left the window.
func TestHowLongAnExcessIsOwed(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for _, shards := range []int{1, 2} {
			for _, late := range []time.Duration{0, 5 * time.Minute} {
				limittest.RunInBubble(t, fmt.Sprint(a, shards, late), 1, func(t *testing.T, f limittest.Fleet) {
					limit := shardlimit.Limit{Permits: 60, Per: time.Minute, Algorithm: a, Shards: shards}
					l := f.Limiter(t, limit)
					d := limittest.MustGet(t, l, 10)
					time.Sleep(late)
					limittest.Must(t, l.Settle(t.Context(), d, 310))
					owed := time.Minute
					if limittest.Bursty(a) {
						owed = 4 * time.Minute // 300 at 60 a minute, of which 60 were free
					}
					time.Sleep(owed - 10*time.Second)
					if d, err := l.AllowN(t.Context(), 2); err != nil || d.Allowed && a != shardlimit.FixedWindow {
						t.Errorf("too early: %+v, %v", d, err)
					}
					time.Sleep(time.Minute)
					limittest.MustGet(t, l, 1)
				})
			}
		}
	}
}

// What this process decides by itself is settled by it alone, once. While Redis is away each
// process goes on with its own part, by the same algorithm, less what it was granted before.
func TestSettleOfWhatThisProcessDecided(t *testing.T) {
	for _, a := range limittest.Algorithms {
		limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Algorithm: a}
		settles := func(t *testing.T, l *shardlimit.Limiter, left func() int64) {
			t.Helper()
			d := limittest.MustGet(t, l, 10)
			if err := l.Settle(t.Context(), handOver(t, d), 0); err != nil || left() != 20 {
				t.Errorf("handed over: %v; %d left", err, left())
			}
			if err := l.Settle(t.Context(), d, 4); err != nil || left() != 26 && a != shardlimit.LeakyBucket {
				t.Errorf("%v; %d left, want 26", err, left())
			}
			limittest.ErrorIs(t, l.Settle(t.Context(), d, 0), shardlimit.ErrSettled, "once more")
			d = limittest.MustGet(t, l, 1)
			if err := l.Settle(t.Context(), d, 40); err != nil || left() != 0 {
				t.Errorf("%v; %d left of what was charged", err, left())
			}
		}
		limittest.RunInBubble(t, fmt.Sprint(a, "per participant"), 1, func(t *testing.T, f limittest.Fleet) {
			own := limit
			own.Scope = shardlimit.PerParticipant
			l := f.Limiter(t, own)
			settles(t, l, func() int64 { return limittest.Peek(t, l).Remaining })
		})
		limittest.RunInBubble(t, fmt.Sprint(a, "during an outage"), 1, func(t *testing.T, f limittest.Fleet) {
			more := limit
			more.Permits = 40
			l := f.Limiter(t, more, limittest.OnOutage(shardlimit.FailLocal))
			limittest.MustGet(t, l, 10)
			f.Bubble[0].Down.Store(true)
			settles(t, l, func() int64 {
				d, err := l.AllowUpTo(t.Context(), 40)
				if err != nil || !d.Degraded || d.Allowed == (d.RetryAfter > 0) ||
					(d.Delay > 0) != (d.Allowed && a == shardlimit.LeakyBucket) {
					t.Fatalf("%+v, %v", d, err)
				}
				limittest.Must(t, l.Settle(t.Context(), d, 0))
				return d.Granted
			})
		})
	}
}

// Keys of families, other participants and leases settle what was handed over, too.
func TestEverythingSettlesWhatWasHandedOver(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		a, b := f.Client(t), f.Client(t)
		family := shardlimit.Limit{Permits: 10, Per: time.Hour}
		leased := shardlimit.Limit{Permits: 100, Per: time.Hour, Lease: time.Second}
		type pair struct{ from, to *shardlimit.Limiter }
		for name, p := range map[string]pair{
			"key": {limittest.Family(t, a, "f", family).Limiter("ann"),
				limittest.Family(t, b, "f", family).Limiter("ann")},
			"participant": {limittest.Limiter(t, a, "l", shardlimit.PerHour(10)).As("tenant", 1),
				limittest.Limiter(t, b, "l", shardlimit.PerHour(10))},
			"lease": {limittest.Limiter(t, a, "leased", leased), limittest.Limiter(t, b, "leased", leased)},
		} {
			var all [8]shardlimit.Decision
			for i := range all { // most of a lease are granted by it
				all[i] = limittest.MustGet(t, p.from, 1)
			}
			for _, d := range all {
				handed := handOver(t, d)
				if handed.Granted != 1 || !handed.Allowed {
					t.Errorf("%s: %+v", name, handed)
				}
				limittest.ErrorIs(t, p.to.Settle(t.Context(), handed, 0), nil, name)
				limittest.ErrorIs(t, p.from.Settle(t.Context(), d, 0), shardlimit.ErrSettled, "once more", name)
			}
			time.Sleep(2 * time.Second) // what the lease holds comes back
			limittest.Uses(t, p.to, 0)
		}
	})
}

// Of many who settle a decision of several shards, each for another use, one does.
func TestOneOfManySettles(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4}
		l, other := f.Limiter(t, limit), f.Limiter(t, limit)
		d := limittest.MustGet(t, l, 30)
		handed := handOver(t, d)
		var winners, won atomic.Int64
		s := limittest.Together(15, func(i int) (shardlimit.Decision, error) {
			by, what, used := l, d, int64(2*i)
			if i%2 == 0 {
				by, what = other, handed
			}
			err := by.Settle(t.Context(), what, used)
			if err == nil {
				winners.Add(1)
				won.Store(used)
			}
			return shardlimit.Decision{}, limittest.Once(err)
		})
		if winners.Load() != 1 || s.Err != nil {
			t.Errorf("%d settled it; %v", winners.Load(), s.Err)
		}
		limittest.Uses(t, l, won.Load())
	})
}

// What was not granted, or not by this limit, is not settled.
func TestErrorsOfSettle(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		l := limittest.Limiter(t, c, "l", shardlimit.PerMinute(10))
		other := limittest.Limiter(t, c, "other", shardlimit.PerMinute(10))
		d := limittest.MustGet(t, l, 5)
		for _, used := range []int64{-1, shardlimit.MaxPermits + 1} {
			limittest.ErrorIs(t, l.Settle(t.Context(), d, used), shardlimit.ErrInvalidPermits, "used", used)
		}
		both := limittest.Passes(t, limittest.Set(1, limittest.Limiter(t, c, "of a set", shardlimit.PerHour(10))))
		for name, of := range map[string]shardlimit.Decision{"another's": d, "a set's": both} {
			if err := other.Settle(t.Context(), of, 0); !errors.Is(err, shardlimit.ErrOtherLimiter) ||
				!strings.Contains(err.Error(), `"other"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		limittest.Must(t, errors.Join(l.Settle(t.Context(), d, 5), l.Settle(t.Context(), d, 5)))
		limittest.Uses(t, l, 5)
		ended, end := context.WithCancel(t.Context())
		end() // a request that was cancelled is settled, too
		limittest.Must(t, l.Settle(ended, limittest.MustGet(t, l, 5), 0))
		limittest.Uses(t, l, 5)
		limittest.MustGet(t, l, 5)
		for _, d := range []shardlimit.Decision{limittest.Denied(t, l, 1), {}, {Allowed: true, Granted: 5}} {
			limittest.Must(t, l.Settle(t.Context(), d, 0))
		}
		limittest.Uses(t, l, 10)
		limittest.Must(t, l.SetLimit(t.Context(), shardlimit.PerMinute(7)))
		limittest.Must(t, l.Settle(t.Context(), d, 1)) // under another limit
		limittest.Uses(t, l, 6)
		forged := limittest.MustGet(t, l, 1)
		forged.Granted = 1000
		limittest.Must(t, l.Settle(t.Context(), forged, 0))
		if st := limittest.Peek(t, l); st.Used < 0 || st.Used+st.Remaining != 7 {
			t.Errorf("%d used, %d free: the refund was not clamped", st.Used, st.Remaining)
		}
	})
}

// FuzzDecisionText: any text is a decision or ErrInvalidDecision, and what was read is written the
// same.
func FuzzDecisionText(f *testing.F) {
	text, err := shardlimit.Decision{Granted: 3}.MarshalText()
	limittest.Must(f, err)
	f.Add(text)
	f.Add([]byte("AQAAAAAA"))
	f.Add([]byte("ASMYsrkDAAAAAAAAAAA\rAAAAAAAAAAAAAAAAAAAAAAAMA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d shardlimit.Decision
		if err := d.UnmarshalText(text); err != nil {
			if !errors.Is(err, shardlimit.ErrInvalidDecision) || d.Granted != 0 {
				t.Errorf("%q: %+v, %v", text, d, err)
			}
			return
		}
		if again, err := d.MarshalText(); err != nil || string(again) != string(text) {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	})
}

// Grants that share an entry of the log: giving one back twice would take what
// another caller still uses.
func TestSettleNeverTakesWhatOthersWereGranted(t *testing.T) {
	l := limittest.Standalone(t).Limiter(t, shardlimit.Limit{Permits: 10_000, Per: time.Hour, Shards: 1})
	for range 40 { // from here on, what is granted within half a minute is one entry
		limittest.MustGet(t, l, 1)
	}
	limittest.MustGet(t, l, 100)
	d := limittest.MustGet(t, l, 60)
	s := limittest.Together(8, func(int) (shardlimit.Decision, error) {
		return shardlimit.Decision{}, limittest.Once(l.Settle(t.Context(), d, 0))
	})
	limittest.Must(t, s.Err)
	limittest.Uses(t, l, 140)
	late := limittest.MustGet(t, l, 7)
	limittest.Must(t, errors.Join(l.Reset(t.Context()), l.Settle(t.Context(), late, 0)))
	if st := limittest.Peek(t, l); st.Used != 0 || st.Remaining != 10_000 {
		t.Errorf("what a reset has freed was given back: %+v", st)
	}
}
