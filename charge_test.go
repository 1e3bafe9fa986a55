package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// What is charged beyond what is free is missing afterwards, and comes back as the algorithm says:
// on real servers and embedded ones.
func TestWhatIsChargedIsMissing(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		for _, a := range algorithms {
			for _, shards := range []int{1, 3} {
				limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Algorithm: a, Shards: shards}
				l := limiter(t, f.client(t), fmt.Sprint(a, shards), limit)
				other := limiter(t, f.client(t), fmt.Sprint(a, shards), limit)
				mustGet(t, l, 20)
				first, err := l.Charge(t.Context(), 4) // which are free
				if err != nil || !first.Allowed || first.Granted != 4 || first.Delay != 0 || peek(t, other).Used != 24 {
					t.Fatalf("%v over %d: %+v, %v; %d used", a, shards, first, err, peek(t, other).Used)
				}
				d, err := l.Charge(t.Context(), 21)
				if err != nil || d.Granted != 21 || d.Remaining != 0 {
					t.Fatalf("%v over %d: %+v, %v", a, shards, d, err)
				}
				if st := peek(t, other); st.Used != 45 || st.Remaining != 0 {
					t.Errorf("%v over %d: %d used, %d free", a, shards, st.Used, st.Remaining)
				}
				if d, err := other.Allow(t.Context()); err != nil || d.Allowed {
					t.Errorf("%v over %d: what is owed is granted: %+v, %v", a, shards, d, err)
				}
				if a == shardlimit.LeakyBucket { // it takes back only whole turns, the newest
					continue
				}
				for range 2 { // once
					if err := l.Refund(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
				if used := peek(t, other).Used; used != 24 {
					t.Errorf("%v over %d: %d used after a refund", a, shards, used)
				}
			}
		}
	})
}

// Debts come back when the algorithm says so.
func TestHowLongAChargeIsOwed(t *testing.T) {
	for _, a := range algorithms {
		for _, shards := range []int{1, 2} {
			t.Run(fmt.Sprint(a, shards), func(t *testing.T) {
				inBubble(t, 2, func(t *testing.T, f fleet) {
					limit := shardlimit.Limit{Permits: 60, Per: time.Minute, Algorithm: a, Shards: shards}
					l := limiter(t, f.client(t), "l", limit)
					if d, err := l.Charge(t.Context(), 60+300); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					began := time.Now()
					least, most := 54*time.Second, time.Minute+time.Second // a fixed window began a moment ago
					if bursty(a) {
						least, most = 299*time.Second, 302*time.Second
					}
					if a == shardlimit.LeakyBucket { // Acquire waits for its turn, behind all others
						least, most = least+limit.Per, most+limit.Per
					}
					d, err := l.Acquire(t.Context(), 1)
					if took := time.Since(began); err != nil || !d.Allowed || took < least || took > most+limit.Per/16 {
						t.Errorf("%+v, %v after %s", d, err, took)
					}
				})
			})
		}
	}
}

// A bucket owes no more than takes an hour to pay, or two bursts; then it says so, and how much was
// counted.
func TestABucketOwesSoMuchAndNoMore(t *testing.T) {
	for _, a := range buckets {
		for _, scope := range []shardlimit.Scope{shardlimit.Global, shardlimit.PerParticipant} {
			t.Run(fmt.Sprint(a, scope), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, f fleet) {
					limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Algorithm: a, Scope: scope}
					l := limiter(t, f.client(t), "l", limit)
					most := int64(10*60 + 10) // and the burst
					d, err := l.Charge(t.Context(), shardlimit.MaxPermits)
					if !errors.Is(err, shardlimit.ErrOwesTooMuch) || d.Granted < most-1 || d.Granted > most {
						t.Errorf("%+v, %v; want %d", d, err, most)
					}
					if d, err := l.Charge(t.Context(), 10); !errors.Is(err, shardlimit.ErrOwesTooMuch) || d.Allowed {
						t.Errorf("beside that: %+v, %v", d, err)
					}
					time.Sleep(10 * time.Minute)
					if d, err := l.Charge(t.Context(), 50); err != nil || d.Granted != 50 {
						t.Errorf("when some is paid: %+v, %v", d, err)
					}
				})
			})
		}
	}
}

// What is admitted beside charges is less by as much: all of it together is what the rate gives.
// Only a fixed window forgets at its edge what it is owed.
func TestChargesReduceWhatIsAdmitted(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, f fleet) {
				limit := shardlimit.Limit{Permits: 40, Per: 4 * time.Second, Algorithm: a, Shards: 2}
				l := limiter(t, f.client(t), "l", limit)
				begun, admitted, charged := time.Now(), int64(0), int64(0)
				for i := 0; time.Since(begun) < 15*limit.Per; i++ {
					if i%7 == 0 { // no more in a window than it has
						d, err := l.Charge(t.Context(), 5)
						if err != nil {
							t.Fatal(err)
						}
						charged += d.Granted
					}
					d, err := l.Allow(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					admitted += d.Granted
					time.Sleep(limit.Per / 32)
				}
				most := 16 * limit.Permits
				if a == shardlimit.FixedWindow {
					most += charged / 2
				}
				if sum := admitted + charged; sum > most || sum < most*4/5 || admitted == 0 {
					t.Errorf("%d admitted and %d charged, in all at most %d", admitted, charged, most)
				}
			})
		})
	}
}

func TestErrorsOfCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := bubbledNodes(t, 1)
		f.punctual = true
		c := f.client(t)
		l := limiter(t, c, "l", shardlimit.PerMinute(2))
		boom := errors.New("boom")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(boom)
		closed := limiter(t, c, "closed", shardlimit.Limit{Permits: 1, Per: time.Minute, Mode: shardlimit.Closed})
		off := limiter(t, c, "off", shardlimit.Limit{Permits: 1, Per: time.Minute, Mode: shardlimit.Off})
		for want, try := range map[error]func() (shardlimit.Decision, error){
			boom:                         func() (shardlimit.Decision, error) { return l.Charge(ended, 2) },
			context.Canceled:             func() (shardlimit.Decision, error) { return l.Charge(ended, 2) },
			shardlimit.ErrInvalidPermits: func() (shardlimit.Decision, error) { return l.Charge(t.Context(), 0) },
			shardlimit.ErrLimitClosed:    func() (shardlimit.Decision, error) { return closed.Charge(t.Context(), 1) },
		} {
			if d, err := try(); !errors.Is(err, want) || d.Allowed {
				t.Errorf("%+v, %v; want %v", d, err, want)
			}
		}
		if d, err := off.Charge(t.Context(), 9); err != nil || d.Granted != 9 {
			t.Errorf("off: %+v, %v", d, err)
		}
		nodes[0].down.Store(true)
		if d, err := l.Charge(t.Context(), 1); !errors.Is(err, shardlimit.ErrUnavailable) || d.Allowed {
			t.Errorf("no node: %+v, %v", d, err)
		}
		nodes[0].down.Store(false)
		c.Close()
		if _, err := l.Charge(t.Context(), 1); !errors.Is(err, shardlimit.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// While no node answers, FailLocal counts a charge in this process' part, and FailOpen nowhere.
func TestChargesThroughAnOutage(t *testing.T) {
	for policy, denied := range map[shardlimit.OutagePolicy]bool{shardlimit.FailLocal: true,
		shardlimit.FailOpen: false} {
		synctest.Test(t, func(t *testing.T) {
			f, nodes := bubbledNodes(t, 1)
			f.punctual = true
			l := limiter(t, f.client(t, onOutage(policy)), "l", shardlimit.PerMinute(10))
			nodes[0].down.Store(true)
			if d, err := l.Charge(t.Context(), 15); err != nil || !d.Degraded || d.Granted < 10 {
				t.Errorf("%v: %+v, %v", policy, d, err)
			}
			if d, err := l.Allow(t.Context()); err != nil || d.Allowed == denied {
				t.Errorf("%v: %+v, %v", policy, d, err)
			}
		})
	}
}

// What is charged is noted once in this process' part, whether it was free or not.
func TestAChargeIsNotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := bubbledNodes(t, 1)
		f.punctual = true
		l := limiter(t, f.client(t, onOutage(shardlimit.FailLocal)), "l", shardlimit.PerMinute(20))
		mustGet(t, limiter(t, f.client(t), "l", shardlimit.PerMinute(20)), 18)
		if d, err := l.Charge(t.Context(), 6); err != nil || d.Granted != 6 { // of which 2 are free
			t.Fatalf("%+v, %v", d, err)
		}
		part := shardlimit.LocalPermits(l)
		nodes[0].down.Store(true)
		l.Forget() // that nothing is free
		if d, err := l.AllowUpTo(t.Context(), 20); err != nil || !d.Degraded || d.Granted != part-6 {
			t.Errorf("of a part of %d: %+v, %v", part, d, err)
		}
	})
}

// However much is charged, what makes a difference is counted, and a bucket tells what is not.
func TestMoreIsChargedThanAShardCanHear(t *testing.T) {
	for _, a := range algorithms {
		for _, shards := range []int{1, 3} {
			for i, n := range []int64{shardlimit.MaxPermits, shardlimit.MaxPermits + 31, math.MaxInt64} {
				t.Run(fmt.Sprint(a, shards, " ", i), func(t *testing.T) {
					inBubble(t, 1, func(t *testing.T, f fleet) {
						limit := shardlimit.Limit{Permits: 30, Per: time.Minute, Algorithm: a, Shards: shards}
						l := limiter(t, f.client(t), "l", limit)
						settled(t, l)
						d, err := l.Charge(t.Context(), n)
						if bursty(a) != errors.Is(err, shardlimit.ErrOwesTooMuch) || !bursty(a) && err != nil {
							t.Error(err)
						}
						most := 2 * limit.Permits
						if bursty(a) { // as much as is paid in an hour, and two bursts
							most = 61*limit.Permits + int64(shards)
						}
						if d.Granted < 2*limit.Permits-int64(shards) || d.Granted > most || peek(t, l).Remaining != 0 {
							t.Errorf("%d counted, want at most %d; %+v", d.Granted, most, peek(t, l))
						}
					})
				})
			}
		}
	}
}

// What a process enforces by itself is charged likewise.
func TestMoreIsChargedThanAnEngineCanCount(t *testing.T) {
	for _, a := range algorithms {
		inBubble(t, 1, func(t *testing.T, f fleet) {
			l := limiter(t, f.client(t), "l", shardlimit.Limit{
				Permits: 30, Per: time.Minute, Algorithm: a, Scope: shardlimit.PerParticipant})
			d, err := l.Charge(t.Context(), math.MaxInt64)
			if bursty(a) != errors.Is(err, shardlimit.ErrOwesTooMuch) || !bursty(a) && err != nil ||
				d.Granted < 30 || d.Granted > 62*30 {
				t.Errorf("%v: %+v, %v", a, d, err)
			}
			if d, err := l.Allow(t.Context()); err != nil || d.Allowed {
				t.Errorf("%v: %+v, %v", a, d, err)
			}
		})
	}
}
